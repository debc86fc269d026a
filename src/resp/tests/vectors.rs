//! The cases of `tests/data/resp-vectors.json`: each whole, byte by byte, and cut at every place.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/resp-vectors.json");

/// Where the file lets an implementation choose, what was chosen here.
const REFUSED_BY_POLICY: [&str; 3] = [
    // The servers' own reader of integers refuses it, and their writers never make it.
    "int_minus_zero",
    // No server sends the null of a map, nor anything streamed.
    "r3_map_null_len",
    "r3_streamed_map",
];

/// Chosen likewise: the decoder does not know the protocol of the connection, and takes these two
/// for what they are.
const TAKEN_BY_POLICY: [&str; 2] = [
    "resp3_type_on_resp2_connection",
    "resp3_push_on_resp2_connection",
];

/// What became of the last reply of a stream.
#[derive(Clone, Debug, PartialEq)]
enum End {
    Clean,
    Incomplete,
    Error(DecodeError),
}

/// Decodes a stream given in pieces: the replies in it, and how it ends.
fn drain<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> (Vec<OwnedValue>, End) {
    let mut inbox = Inbox::default();
    let mut replies = Vec::new();
    let mut torn = false;
    for mut piece in pieces {
        while !piece.is_empty() {
            match inbox.next(&mut piece) {
                Ok(Some(frame)) => {
                    replies.push(frame.element().to_owned());
                    torn = false;
                }
                Ok(None) => torn = true,
                Err(error) => return (replies, End::Error(error)),
            }
        }
    }
    (replies, if torn { End::Incomplete } else { End::Clean })
}

/// The same by a decoder that is given all bytes again each time there is one more.
fn drain_growing(bytes: &[u8]) -> (Vec<OwnedValue>, End) {
    let mut decoder = Decoder::new(Limits::default());
    let mut replies = Vec::new();
    let mut start = 0;
    for end in 0..=bytes.len() {
        match decoder.decode(&bytes[start..end]) {
            Ok(Some(frame)) => {
                start += frame.len;
                assert_eq!(start, end, "a reply is complete with its last byte");
                replies.push(frame.element().to_owned());
            }
            Ok(None) => (),
            Err(error) => return (replies, End::Error(error)),
        }
    }
    (
        replies,
        if start < bytes.len() {
            End::Incomplete
        } else {
            End::Clean
        },
    )
}

#[test]
fn every_case_at_every_cut() {
    let text = std::fs::read_to_string(FILE).expect("it is committed");
    let cases = Json::parse(&text);
    let mut done = 0;
    for case in cases.items() {
        check(case);
        done += 1;
    }
    assert_eq!(done, 98, "a case was added or lost");
}

fn check(case: &Json) {
    let name = case.get("name").expect("a name").text();
    let bytes = hex(case.get("input_hex").expect("an input").text());
    let whole = drain([&bytes[..]].into_iter());
    check_outcome(name, &whole, case);
    assert_eq!(drain(bytes.chunks(1)), whole, "{name}: byte by byte");
    assert_eq!(drain_growing(&bytes), whole, "{name}: growing");
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(
            drain([left, right].into_iter()),
            whole,
            "{name}: cut at {cut}"
        );
    }
    if whole.1 == End::Clean && whole.0.len() == 1 {
        for cut in 1..bytes.len() {
            let prefix = drain([&bytes[..cut]].into_iter());
            assert_eq!(
                prefix,
                (Vec::new(), End::Incomplete),
                "{name}: prefix of {cut}"
            );
        }
    }
}

fn check_outcome(name: &str, (replies, end): &(Vec<OwnedValue>, End), case: &Json) {
    let expect = case.get("expect").expect("an expectation");
    if REFUSED_BY_POLICY.contains(&name) {
        assert!(case.get("policy").is_some(), "{name} leaves no choice");
        assert_matches!(end, End::Error(_), "{name}: {replies:?} {end:?}");
        return;
    }
    if TAKEN_BY_POLICY.contains(&name) {
        assert!(case.get("policy").is_some(), "{name} leaves no choice");
        assert_eq!((replies.len(), end), (1, &End::Clean), "{name}");
        return;
    }
    let mut frames: Vec<&Json> = match expect.get("frames") {
        Some(frames) => frames.items().iter().collect(),
        None => Vec::from([expect]),
    };
    let last = *frames.last().expect("an outcome");
    let kind = if last.get("error").is_some() {
        frames.pop();
        assert_matches!(end, End::Error(_), "{name}: {replies:?} {end:?}");
        "error"
    } else if last.get("incomplete").is_some() {
        frames.pop();
        // No bytes at all are no beginning either.
        let nothing = case
            .get("input_hex")
            .is_some_and(|input| input.text().is_empty());
        let wanted = if nothing { End::Clean } else { End::Incomplete };
        assert_eq!(end, &wanted, "{name}: {replies:?}");
        "incomplete"
    } else {
        assert_eq!(end, &End::Clean, "{name}: {replies:?}");
        "value"
    };
    let wanted: Vec<OwnedValue> = frames.into_iter().map(value).collect();
    assert_eq!(replies, &wanted, "{name}: {kind}");
}

/// What an expectation of the file says, as a value of ours.
fn value(expect: &Json) -> OwnedValue {
    if let Some(pairs_json) = expect.get("attr") {
        let value = value(expect.get("of").expect("what the attribute is about"));
        let attributes = pairs(pairs_json);
        return OwnedValue::attributed(attributes, value);
    }
    let (tag, content) = expect.only();
    match tag {
        "simple" => OwnedValue::Simple(content.bytes().into()),
        "err" => OwnedValue::Error(content.bytes().into()),
        "int" => OwnedValue::Integer(content.text().parse().expect("an integer")),
        "bulk" => OwnedValue::Bulk(content.bytes().into()),
        "null" => OwnedValue::Null,
        "array" => OwnedValue::array(content.items().iter().map(value)),
        "set" => OwnedValue::set(content.items().iter().map(value)),
        "push" => OwnedValue::push(content.items().iter().map(value)),
        "map" => OwnedValue::map(pairs(content)),
        "bool" => OwnedValue::Boolean(content == &Json::True),
        "double" => OwnedValue::Double(content.text().parse().expect("a double")),
        "bignum" => OwnedValue::BigNumber(content.bytes().into()),
        "blob_err" => OwnedValue::BulkError(content.bytes().into()),
        "verbatim" => OwnedValue::Verbatim {
            format: content.items()[0].bytes().try_into().expect("three bytes"),
            text: content.items()[1].bytes().into(),
        },
        unknown => panic!("unknown tag {unknown}"),
    }
}

fn pairs(json: &Json) -> Vec<(OwnedValue, OwnedValue)> {
    let pair = |pair: &Json| (value(&pair.items()[0]), value(&pair.items()[1]));
    json.items().iter().map(pair).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two hex digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// As much of JSON as the file needs: a dependency for one test would be too much.
#[derive(Debug, PartialEq)]
enum Json {
    True,
    False,
    Number(String),
    Text(String),
    Items(Vec<Self>),
    Fields(Vec<(String, Self)>),
}

impl Json {
    fn parse(text: &str) -> Self {
        let mut rest = text;
        let json = Self::read(&mut rest);
        assert_eq!(rest.trim(), "", "one value");
        json
    }

    fn read(rest: &mut &str) -> Self {
        *rest = rest.trim_start();
        match rest.as_bytes()[0] {
            b'"' => Self::Text(Self::read_text(rest)),
            b'[' => Self::Items(Self::read_list(rest, ']', Self::read)),
            b'{' => Self::Fields(Self::read_list(rest, '}', |rest| {
                *rest = rest.trim_start();
                let key = Self::read_text(rest);
                *rest = rest.trim_start().strip_prefix(':').expect("a colon");
                (key, Self::read(rest))
            })),
            _ => {
                let end = rest.find([',', ']', '}', '\n']).unwrap_or(rest.len());
                let word = rest[..end].trim();
                *rest = &rest[end..];
                match word {
                    "true" => Self::True,
                    "false" => Self::False,
                    number => Self::Number(number.to_string()),
                }
            }
        }
    }

    fn read_list<T>(rest: &mut &str, close: char, read: impl Fn(&mut &str) -> T) -> Vec<T> {
        let mut list = Vec::new();
        *rest = &rest[1..];
        loop {
            *rest = rest.trim_start();
            if let Some(behind) = rest.strip_prefix(close) {
                *rest = behind;
                return list;
            }
            if !list.is_empty() {
                *rest = rest.strip_prefix(',').expect("a comma");
            }
            list.push(read(rest));
        }
    }

    fn read_text(rest: &mut &str) -> String {
        let mut text = String::new();
        let mut letters = rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    *rest = &rest[at + 1..];
                    return text;
                }
                '\\' => match letters.next().expect("an escape").1 {
                    'n' => text.push('\n'),
                    'r' => text.push('\r'),
                    't' => text.push('\t'),
                    'u' => {
                        let digits: String = letters.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&digits, 16).expect("four hex digits");
                        text.push(char::from_u32(code).expect("no surrogates in the file"));
                    }
                    plain => text.push(plain),
                },
                plain => text.push(plain),
            }
        }
        panic!("a text without end")
    }

    fn get(&self, key: &str) -> Option<&Self> {
        let Self::Fields(fields) = self else {
            return None;
        };
        fields
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, json)| json)
    }

    fn only(&self) -> (&str, &Self) {
        let Self::Fields(fields) = self else {
            panic!("a field expected: {self:?}")
        };
        let [(name, json)] = &fields[..] else {
            panic!("one field expected: {self:?}")
        };
        (name, json)
    }

    fn items(&self) -> &[Self] {
        let Self::Items(items) = self else {
            panic!("a list expected: {self:?}")
        };
        items
    }

    fn text(&self) -> &str {
        let Self::Text(text) = self else {
            panic!("a text expected: {self:?}")
        };
        text
    }

    /// The bytes of a text, or of `{"hex": ...}` where they are not UTF-8.
    fn bytes(&self) -> Vec<u8> {
        match self.get("hex") {
            Some(digits) => hex(digits.text()),
            None => self.text().as_bytes().to_vec(),
        }
    }
}
