//! The decoder against a model of the grammar, within tiny limits.
//!
//! The model lists every reply that the limits allow. So it is known of any bytes whether they are
//! a reply, the beginning of one, or neither; and the decoder has to know it too, with each byte
//! that is added. It says "more" only where some continuation is valid, and an error names the
//! byte that came last.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::cell::RefCell;

use super::*;

/// What may stand at a place of a reply beside what the model puts there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Place {
    /// Nothing.
    Exact,
    /// `E` instead of `e`.
    Mark,
    /// A digit above 1 instead of `1`.
    FirstDigit,
    /// Any digit instead of `1`.
    Digit,
    /// Any byte but CR and LF instead of `x`.
    Line,
    /// Any byte instead of `x`.
    Payload,
}

impl Place {
    /// Whether this byte is as good there as one that the model lists.
    fn is_another(self, byte: u8) -> bool {
        match self {
            Self::Exact => false,
            Self::Mark => byte == b'E',
            Self::FirstDigit => matches!(byte, b'2'..=b'9'),
            Self::Digit => matches!(byte, b'0' | b'2'..=b'9' | b'E'),
            Self::Line => !matches!(byte, b'x' | b'\r' | b'\n'),
            Self::Payload => byte != b'x',
        }
    }
}

/// Bytes that are tried at each place.
const BYTES: &[u8] = b"+-:$*_#,(!=%~>|0123456789\r\n.eEinfatxy?@ \0\xff";

/// A part of a reply: its bytes, and their places.
#[derive(Clone, Debug, Default)]
struct Spelled(Vec<(u8, Place)>);

impl Spelled {
    fn new(text: &str, place: impl Fn(u8) -> Place) -> Self {
        Self(text.bytes().map(|byte| (byte, place(byte))).collect())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn then(&self, other: &Self) -> Self {
        Self([&self.0[..], &other.0].concat())
    }
}

fn exact(text: &str) -> Spelled {
    Spelled::new(text, |_| Place::Exact)
}

fn line(kind: &str, text: Spelled) -> Spelled {
    exact(kind).then(&text).then(&exact("\r\n"))
}

fn number(text: &str) -> Spelled {
    let mut spelled = Spelled::new(text, |byte| match byte {
        b'0' | b'1' => Place::Digit,
        b'e' => Place::Mark,
        _ => Place::Exact,
    });
    // What follows a zero in front of it, and the zero itself, is another matter.
    if let Some(first) = spelled.0.iter_mut().find(|(byte, _)| *byte != b'-') {
        first.1 = Place::FirstDigit;
    }
    spelled
}

/// What an element has around it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Around {
    /// Levels that may still be opened.
    depth: usize,
    /// Whether it is the reply itself.
    is_reply: bool,
    /// Whether it says of what kind a push is.
    is_kind: bool,
}

struct Model {
    limits: Limits,
    /// What was listed before, by room and surroundings.
    known: RefCell<BTreeMap<(usize, Around), Elements>>,
}

type Elements = Rc<Vec<Spelled>>;

impl Model {
    /// All replies.
    fn replies(limits: Limits) -> Elements {
        let known = RefCell::default();
        let around = Around {
            depth: limits.depth,
            is_reply: true,
            is_kind: false,
        };
        Self { limits, known }.elements(limits.reply_bytes, around)
    }

    /// All elements of at most so many bytes, with and without attributes.
    fn elements(&self, room: usize, around: Around) -> Elements {
        if let Some(known) = self.known.borrow().get(&(room, around)) {
            return known.clone();
        }
        let mut all = self.strings(room);
        if !around.is_kind {
            all.extend(self.other_scalars(room));
            all.extend(self.aggregates("*", 1, room, around));
            all.extend(self.aggregates("%", 2, room, around));
            all.extend(self.aggregates("~", 1, room, around));
        }
        if around.is_reply {
            all.extend(self.aggregates(">", 1, room, around));
        }
        for attributes in self.aggregates("|", 2, room.saturating_sub(3), around) {
            let elements = self.elements(room - attributes.len(), around);
            all.extend(elements.iter().map(|element| attributes.then(element)));
        }
        all.retain(|element| element.len() <= room);
        let all = Rc::new(all);
        self.known.borrow_mut().insert((room, around), all.clone());
        all
    }

    /// What may say of what kind a push is.
    fn strings(&self, room: usize) -> Vec<Spelled> {
        let mut all = self.lines("+", room);
        all.extend(self.counted("$", 0, room));
        all
    }

    fn other_scalars(&self, room: usize) -> Vec<Spelled> {
        let words = [
            "_", "$-1", "*-1", "#t", "#f", ",inf", ",-inf", ",nan", ",-nan",
        ];
        let mut all: Vec<_> = words.map(|word| exact(&format!("{word}\r\n"))).into();
        all.extend(self.lines("-", room));
        all.extend(self.counted("!", 0, room));
        all.extend(self.counted("=", 4, room));
        let longest = room.saturating_sub(3);
        for text in integers(longest) {
            all.push(line(":", number(&text)));
        }
        for text in doubles(longest) {
            all.push(line(",", number(&text)));
        }
        for len in 1..=longest.min(self.limits.line_bytes) {
            let digits = Spelled::new(&"1".repeat(len), |_| Place::Digit);
            all.push(line("(", digits.clone()));
            if len < self.limits.line_bytes {
                all.push(line("(-", digits));
            }
        }
        all
    }

    fn lines(&self, kind: &str, room: usize) -> Vec<Spelled> {
        let texts = (0..=self.limits.line_bytes.min(room)).map(|len| "x".repeat(len));
        texts
            .map(|text| line(kind, Spelled::new(&text, |_| Place::Line)))
            .collect()
    }

    /// Strings that say their length, `least` or more: the payload begins with a format if that
    /// is not zero.
    fn counted(&self, kind: &str, least: usize, room: usize) -> Vec<Spelled> {
        let payload = |len| Spelled::new(&"x".repeat(len), |_| Place::Payload);
        let format = match least {
            0 => Spelled::default(),
            _ => payload(least - 1).then(&exact(":")),
        };
        (least..=self.limits.bulk_bytes.min(room))
            .map(|len| {
                let header = exact(&format!("{kind}{len}\r\n"));
                header.then(&line("", format.then(&payload(len - least))))
            })
            .collect()
    }

    /// Aggregates of a kind whose items consist of so many elements each.
    fn aggregates(&self, kind: &str, each: usize, room: usize, around: Around) -> Vec<Spelled> {
        let mut all = Vec::new();
        let Some(depth) = around.depth.checked_sub(1) else {
            return all;
        };
        let inside = |is_kind| Around {
            depth,
            is_reply: false,
            is_kind,
        };
        let is_push = kind == ">";
        for count in usize::from(is_push)..=self.limits.elements / each {
            let header = exact(&format!("{kind}{count}\r\n"));
            if room < header.len() + count * each * 3 {
                break;
            }
            let left = room - header.len();
            let items = self.sequences(count * each, left, inside(is_push), inside(false));
            all.extend(items.iter().map(|items| header.then(items)));
        }
        all
    }

    /// All sequences of so many elements.
    fn sequences(&self, count: usize, room: usize, first: Around, other: Around) -> Vec<Spelled> {
        if count == 0 {
            return vec![Spelled::default()];
        }
        let Some(room_of_first) = room.checked_sub((count - 1) * 3) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for element in self.elements(room_of_first, first).iter() {
            let others = self.sequences(count - 1, room - element.len(), other, other);
            all.extend(others.iter().map(|others| element.then(others)));
        }
        all
    }
}

fn integers(longest: usize) -> Vec<String> {
    let naturals = (1..=longest.min(19)).map(|len| "1".repeat(len));
    let mut all: Vec<_> = naturals
        .clone()
        .map(|natural| format!("-{natural}"))
        .collect();
    all.extend(naturals);
    all.push("0".into());
    all
}

fn doubles(longest: usize) -> Vec<String> {
    let digits = || (1..=longest).map(|len| "1".repeat(len));
    let with_nothing = |parts: Vec<String>| [vec![String::new()], parts].concat();
    let fractions = with_nothing(digits().map(|digits| format!(".{digits}")).collect());
    let signs = ["e", "e+", "e-"];
    let exponents = signs.map(|sign| digits().map(move |digits| format!("{sign}{digits}")));
    let exponents = with_nothing(exponents.into_iter().flatten().collect());
    let mut all = Vec::new();
    for integral in integers(longest).into_iter().chain(["-0".into()]) {
        for fraction in &fractions {
            for exponent in &exponents {
                all.push(format!("{integral}{fraction}{exponent}"));
            }
        }
    }
    all.retain(|text| text.len() <= longest && !overflows(text));
    all
}

/// Whether a number is too large, or has become so on the way.
fn overflows(text: &str) -> bool {
    (1..=text.len()).any(|end| text[..end].parse().is_ok_and(f64::is_infinite))
}

/// What the model says of some bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Says {
    Reply,
    /// The beginning of a reply, and what else may stand behind it.
    More(Place),
}

/// What the model says of all bytes that can become a reply.
fn sayings(limits: Limits) -> BTreeMap<Vec<u8>, Says> {
    let mut sayings = BTreeMap::new();
    for Spelled(reply) in Model::replies(limits).iter() {
        let mut beginning = Vec::new();
        for &(byte, place) in reply {
            let says = sayings
                .entry(beginning.clone())
                .or_insert(Says::More(place));
            if let Says::More(known) = says {
                *known = place.max(*known);
            }
            beginning.push(byte);
        }
        sayings.insert(beginning, Says::Reply);
    }
    sayings
}

/// What may lie behind a byte that is wrong: nothing changes with it.
const TAILS: [&[u8]; 3] = [b"0", b"\r\n", b"1\r\n+x\r\n"];

/// Asks the decoder about all that can become a reply, and about all that is wrong by one byte. Of
/// how much the model knew.
fn check(limits: Limits) -> usize {
    let sayings = sayings(limits);
    for (beginning, says) in &sayings {
        let Says::More(place) = says else { continue };
        let mut grown = Decoder::new(limits);
        for end in 0..=beginning.len() {
            assert_eq!(grown.measure(&beginning[..end]), Ok(None));
        }
        for &byte in BYTES.iter().filter(|&&byte| !place.is_another(byte)) {
            let bytes = [&beginning[..], &[byte]].concat();
            let found = Decoder::new(limits).measure(&bytes);
            let shown = bytes.escape_ascii();
            match (sayings.get(&bytes), found) {
                (Some(Says::Reply), Ok(Some(len))) if len == bytes.len() => (),
                (Some(Says::More(_)), Ok(None)) => (),
                (None, Err(error)) if error.at == beginning.len() => {
                    let more = [&bytes, TAILS[usize::from(byte) % TAILS.len()]].concat();
                    let more = Decoder::new(limits).measure(&more);
                    assert_eq!(more, found, "{shown} and more with {limits:?}");
                }
                (says, found) => panic!("{shown} is {says:?} and not {found:?} with {limits:?}"),
            }
            assert_eq!(grown.clone().measure(&bytes), found, "{shown} grown");
            let mut decoder = Decoder::new(limits);
            let decoded = decoder
                .decode(&bytes)
                .map(|frame| frame.map(|frame| frame.len));
            assert_eq!(decoded, found, "{shown} directly");
        }
    }
    sayings.len()
}

/// No bound but that on the reply matters.
const WIDE: Limits = Limits {
    line_bytes: 99,
    bulk_bytes: 99,
    elements: 99,
    depth: 9,
    reply_bytes: 99,
};

#[test]
fn the_bound_on_the_reply() {
    let known = (7..=12).map(|reply_bytes| {
        check(Limits {
            reply_bytes,
            ..WIDE
        })
    });
    assert_eq!(known.sum::<usize>(), 13_044);
}

#[test]
fn the_bound_on_the_reply_and_each_other() {
    let known = (0..=4).flat_map(|bound| {
        let bounds = [
            Limits {
                line_bytes: bound + 2,
                ..WIDE
            },
            Limits {
                bulk_bytes: bound,
                ..WIDE
            },
            Limits {
                elements: bound,
                ..WIDE
            },
            Limits {
                depth: bound,
                ..WIDE
            },
        ];
        bounds.into_iter().flat_map(|bounds| {
            [8, 10].map(|reply_bytes| {
                check(Limits {
                    reply_bytes,
                    ..bounds
                })
            })
        })
    });
    assert_eq!(known.sum::<usize>(), 38_009);
}

#[test]
fn all_bounds_at_once() {
    let tight = Limits {
        line_bytes: 2,
        bulk_bytes: 4,
        elements: 3,
        depth: 2,
        reply_bytes: 0,
    };
    let known = [10, 13].map(|reply_bytes| {
        check(Limits {
            reply_bytes,
            ..tight
        })
    });
    assert_eq!(known.iter().sum::<usize>(), 13_445);
}

/// A verbatim string of ten bytes has the first length of two digits.
#[test]
fn scalars_of_some_length() {
    let scalars = Limits {
        line_bytes: 3,
        elements: 1,
        depth: 0,
        ..WIDE
    };
    let known = (9..=11).map(|bulk_bytes| {
        check(Limits {
            bulk_bytes,
            reply_bytes: 19,
            ..scalars
        })
    });
    assert_eq!(known.sum::<usize>(), 21_698);
}
