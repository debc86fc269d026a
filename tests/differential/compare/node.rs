//! The values of the reader: the common form, and the facts that decide what the other decoder does with them.

use super::answer;
use super::differences::Difference;
use super::rules::{Rules, Stop, Unfit};

/// A value that was read.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The byte of its type.
    kind: u8,
    /// The value in the common form.
    pub(crate) text: String,
    /// The same with its attributes, which make it another key of a hash table.
    whole: String,
    pub(crate) marks: Marks,
}

/// The contents of a value, its attributes included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// There is a string in it.
    string: bool,
    /// There is a NaN in it, which is not equal to itself.
    nan: bool,
    /// There is a text in it that is not UTF-8, although the other decoder requires UTF-8 there.
    pub(crate) not_utf8: bool,
}

impl Marks {
    fn and(self, other: Self) -> Self {
        Self {
            string: self.string || other.string,
            nan: self.nan || other.nan,
            not_utf8: self.not_utf8 || other.not_utf8,
        }
    }
}

impl Node {
    /// A value without a string in it.
    pub(crate) fn plain(kind: u8, text: String) -> Self {
        Self {
            kind,
            whole: text.clone(),
            text,
            marks: Marks::default(),
        }
    }

    pub(crate) fn null() -> Self {
        Self::plain(b'_', "_".to_owned())
    }

    pub(crate) fn double(value: f64) -> Self {
        let mut node = Self::plain(b',', answer::double(value));
        node.marks.nan = value.is_nan();
        node
    }

    pub(crate) fn string(kind: u8, bytes: &[u8]) -> Self {
        Self::text(kind, answer::string(char::from(kind), bytes))
    }

    /// A string that has to be UTF-8 for the other decoder.
    pub(crate) fn utf8(kind: u8, bytes: &[u8]) -> Self {
        let mut node = Self::string(kind, bytes);
        node.marks.not_utf8 = std::str::from_utf8(bytes).is_err();
        node
    }

    pub(crate) fn verbatim(format: &[u8], text: &[u8]) -> Self {
        Self::text(b'=', answer::verbatim(format, text))
    }

    fn text(kind: u8, text: String) -> Self {
        let mut node = Self::plain(kind, text);
        node.marks.string = true;
        node
    }

    /// An array or a push.
    pub(crate) fn list(kind: u8, items: &[Self]) -> Self {
        let marks = items
            .iter()
            .fold(Marks::default(), |marks, item| marks.and(item.marks));
        let all = |text: fn(&Self) -> &String| {
            answer::list(char::from(kind), items.iter().map(text).cloned())
        };
        Self {
            kind,
            text: all(|item| &item.text),
            whole: all(|item| &item.whole),
            marks,
        }
    }

    /// A set, a map or attributes.
    pub(crate) fn bag(kind: u8, entries: &[Entry]) -> Self {
        let marks = entries
            .iter()
            .fold(Marks::default(), |marks, entry| marks.and(entry.marks()));
        let all = |text: fn(&Self) -> &str| {
            let entries = entries.iter().map(|entry| entry.text(text));
            answer::bag(char::from(kind), entries)
        };
        Self {
            kind,
            text: all(|node| &node.text),
            whole: all(|node| &node.whole),
            marks,
        }
    }

    /// The value with attributes in front of it.
    pub(crate) fn with(mut self, attributes: &Self) -> Self {
        self.whole = format!("{} {}", attributes.whole, self.whole);
        self.marks = self.marks.and(attributes.marks);
        self
    }

    /// Returns `true` if the other decoder has a place for attributes beside it.
    pub(crate) fn takes_attributes(&self) -> bool {
        !matches!(self.kind, b'_' | b';' | b'H')
    }

    /// Returns `true` if the other decoder puts it into a hash table.
    fn is_hashable(&self) -> bool {
        !matches!(self.kind, b'*' | b'%' | b'~' | b'>' | b'H')
    }

    fn is(&self, other: &Self) -> bool {
        self.whole == other.whole && !self.marks.nan
    }

    fn is_but_for_zeros(&self, other: &Self) -> bool {
        let unsigned = |node: &Self| node.whole.replace("-0.0", "0.0");
        self.whole.contains("0.0") && self.whole != other.whole && unsigned(self) == unsigned(other)
    }
}

/// An element of a set, or of a map or attributes with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Option<Node>,
}

impl Entry {
    fn text(&self, of: fn(&Node) -> &str) -> String {
        match &self.value {
            Some(value) => answer::pair(of(&self.key), of(value)),
            None => of(&self.key).to_owned(),
        }
    }

    fn marks(&self) -> Marks {
        match &self.value {
            Some(value) => self.key.marks.and(value.marks),
            None => self.key.marks,
        }
    }
}

/// Returns what a hash table keeps of these entries, if the other decoder makes one.
pub(crate) fn hashed(entries: Vec<Entry>, rules: &mut Rules) -> Result<Vec<Entry>, Stop> {
    if entries.iter().any(|entry| !entry.key.is_hashable()) {
        rules.forbid(Difference::AggregateKey)?;
    }
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries {
        if rules.has(Difference::Repeated)
            && kept.iter().any(|one| one.key.is_but_for_zeros(&entry.key))
        {
            return Err(Stop::Unfit(Unfit::Zeros));
        }
        match kept.iter_mut().find(|one| one.key.is(&entry.key)) {
            Some(first) if rules.meet(Difference::Repeated) => {
                // Numbers are compared at once, strings only after all texts were looked at.
                let looked_at = entry.key.marks.string;
                first.key.marks.not_utf8 |= looked_at && entry.marks().not_utf8;
            }
            Some(_) | None => kept.push(entry),
        }
    }
    Ok(kept)
}
