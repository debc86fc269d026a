//! A strict JSON parser that shares no code with the command.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Json {
    /// Parses one line with one object.
    #[track_caller]
    pub(super) fn line(text: &str) -> Self {
        let line = text.strip_suffix('\n').expect("a whole line");
        assert!(!line.contains(char::is_control), "{line:?}");
        let mut rest = line.chars().peekable();
        let value = value(&mut rest);
        assert_eq!(rest.next(), None, "{line:?}");
        assert!(matches!(value, Self::Object(_)), "{line:?}");
        value
    }

    /// Returns the value at this path of names, and of places in lists.
    #[track_caller]
    pub(super) fn at(&self, path: &str) -> &Self {
        path.split('.').fold(self, |value, step| {
            match value {
                Self::Object(fields) => fields.get(step),
                Self::List(values) => values.get(step.parse::<usize>().expect("a place")),
                Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => None,
            }
            .unwrap_or_else(|| panic!("no {path:?} in {self:?}"))
        })
    }

    #[track_caller]
    pub(super) fn text(&self, path: &str) -> &str {
        match self.at(path) {
            Self::Text(text) => text,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn number(&self, path: &str) -> u64 {
        match self.at(path) {
            Self::Number(number) => *number,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Returns the names of all fields, also of the objects in it.
    pub(super) fn all_names(&self) -> Vec<&str> {
        match self {
            Self::Object(fields) => {
                let names = fields.keys().map(String::as_str);
                names
                    .chain(fields.values().flat_map(Self::all_names))
                    .collect()
            }
            Self::List(values) => values.iter().flat_map(Self::all_names).collect(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => Vec::new(),
        }
    }

    /// Returns the names of the fields.
    #[track_caller]
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::Object(fields) => fields.keys().map(String::as_str).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn value(rest: &mut Peekable<Chars<'_>>) -> Json {
    match *rest.peek().expect("a value") {
        '{' => Json::Object(all(rest, '}', |rest| {
            let name = text(rest);
            expect(rest, ":");
            (name, value(rest))
        })),
        '[' => Json::List(all(rest, ']', value)),
        '"' => Json::Text(text(rest)),
        'n' => {
            expect(rest, "null");
            Json::Null
        }
        't' => {
            expect(rest, "true");
            Json::Bool(true)
        }
        'f' => {
            expect(rest, "false");
            Json::Bool(false)
        }
        _ => {
            let mut digits = String::new();
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            assert!(digits == "0" || !digits.starts_with('0'), "{digits}");
            Json::Number(digits.parse().expect("a number"))
        }
    }
}

/// Reads what stands between brackets, separated by commas.
fn all<T, C: Default + Extend<T>>(
    rest: &mut Peekable<Chars<'_>>,
    end: char,
    one: impl Fn(&mut Peekable<Chars<'_>>) -> T,
) -> C {
    let mut all = C::default();
    rest.next();
    if rest.next_if_eq(&end).is_some() {
        return all;
    }
    loop {
        all.extend([one(rest)]);
        if rest.next_if_eq(&end).is_some() {
            return all;
        }
        expect(rest, ",");
    }
}

fn text(rest: &mut Peekable<Chars<'_>>) -> String {
    expect(rest, "\"");
    let mut text = String::new();
    loop {
        match rest.next().expect("the end of a string") {
            '"' => return text,
            '\\' => text.push(escaped(rest)),
            letter => text.push(letter),
        }
    }
}

fn escaped(rest: &mut Peekable<Chars<'_>>) -> char {
    match rest.next().expect("a letter") {
        letter @ ('"' | '\\' | '/') => letter,
        'u' => {
            let digits: String = rest.by_ref().take(4).collect();
            let number = u32::from_str_radix(&digits, 16).expect("four digits");
            char::from_u32(number).expect("a letter")
        }
        other => panic!("\\{other}"),
    }
}

fn expect(rest: &mut Peekable<Chars<'_>>, word: &str) {
    for letter in word.chars() {
        assert_eq!(rest.next(), Some(letter), "of {word:?}");
    }
}
