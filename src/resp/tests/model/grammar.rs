//! The model: every reply within some limits, by the rules of the grammar alone.
//!
//! If several bytes are equally valid at a place, only one of them is listed: see [`Place`].

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::cell::RefCell;

use super::Limits;

/// The bytes that are valid at a place of a reply, besides the byte that the model puts there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Place {
    /// No other byte.
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
    /// Returns `true` if this byte is as valid there as the byte that the model lists.
    pub(super) fn is_another(self, byte: u8) -> bool {
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

/// A part of a reply: its bytes, and their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Spelled(pub(super) Vec<(u8, Place)>);

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
    // A leading zero, and the digit after it, follow other rules.
    let is_sign = |byte| matches!(byte, b'-' | b'+');
    if let Some(first) = spelled.0.iter_mut().find(|(byte, _)| !is_sign(*byte)) {
        first.1 = Place::FirstDigit;
    }
    spelled
}

/// Returns all replies within the limits.
pub(super) fn replies(limits: Limits) -> Elements {
    let around = Around {
        depth: limits.depth,
        is_reply: true,
        is_kind: false,
    };
    let model = Model {
        limits,
        known: RefCell::default(),
    };
    model.elements(limits.reply_bytes, around)
}

/// The surroundings of an element.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Around {
    /// Levels that may still be opened.
    depth: usize,
    /// Whether it is the reply itself.
    is_reply: bool,
    /// Whether it is the kind of a push.
    is_kind: bool,
}

struct Model {
    limits: Limits,
    /// The elements that were listed before, by room and surroundings.
    known: RefCell<BTreeMap<(usize, Around), Elements>>,
}

pub(super) type Elements = Rc<Vec<Spelled>>;

impl Model {
    /// Returns all elements of at most `room` bytes, with and without attributes.
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

    /// Returns the strings that may be the kind of a push.
    fn strings(&self, room: usize) -> Vec<Spelled> {
        let mut all = self.lines("+", room);
        all.extend(self.counted("$", 0, room));
        all
    }

    fn other_scalars(&self, room: usize) -> Vec<Spelled> {
        let words = ["_", "$-1", "*-1", "#t", "#f"];
        let mut all: Vec<_> = words.map(|word| exact(&format!("{word}\r\n"))).into();
        let words = ["inf", "-inf", "nan", "-nan"].into_iter();
        let words = words.filter(|word| word.len() <= self.limits.line_bytes);
        all.extend(words.map(|word| line(",", exact(word))));
        all.extend(self.lines("-", room));
        all.extend(self.counted("!", 0, room));
        all.extend(self.counted("=", 4, room));
        let longest = room.saturating_sub(3);
        for text in integers(longest) {
            all.push(line(":", number(&text)));
        }
        for text in doubles(longest.min(self.limits.line_bytes)) {
            all.push(line(",", number(&text)));
        }
        for len in 1..=longest.min(self.limits.line_bytes) {
            let digits = Spelled::new(&"1".repeat(len), |_| Place::Digit);
            all.push(line("(", digits.clone()));
            if len < self.limits.line_bytes {
                all.push(line("(-", digits.clone()));
                all.push(line("(+", digits));
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

    /// Returns strings with a length of `least` or more. If `least` is not zero, the payload begins with a format.
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

    /// Returns aggregates of a kind whose items consist of this number of elements each.
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

    /// Returns all sequences of this number of elements.
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
        .flat_map(|natural| [format!("-{natural}"), format!("+{natural}"), natural])
        .collect();
    all.extend(["0".into(), "+0".into()]);
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

fn overflows(text: &str) -> bool {
    text.parse().is_ok_and(f64::is_infinite)
}
