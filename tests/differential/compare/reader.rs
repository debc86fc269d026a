//! A plain reader of the protocol: a function for each type, which calls the others, on complete bytes. It is slow,
//! cannot resume and has no views. It is a second opinion on the fast decoder.
//!
//! Where the two decoders differ, the reader asks its [`Rules`].

use shearline::internals::resp::Limits;

use super::answer::{self, Answer};
use super::differences::{Difference, Differences};
use super::node::{Entry, Node, hashed};
use super::rules::{Rules, Stop, Unfit};
use super::spelling::{self, Header, Length};

/// The other decoder is not given input that is nested deeper: see [`Unfit::Deep`].
const THEIR_DEPTH_MAX: usize = 64;

/// Longest line of a text, and of an integer or a length.
const LONG: usize = 64 << 10;
const SHORT: usize = 20;

/// The reader's answer about the first reply of some bytes.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) answer: Result<Answer, Unfit>,
    /// The differences that mattered, in order.
    pub(crate) met: Vec<Difference>,
}

/// Reads the first reply of `bytes` with these switches on.
pub(crate) fn read(bytes: &[u8], in_force: Differences) -> Reading {
    let mut reader = Reader {
        bytes,
        at: 0,
        rules: Rules::new(in_force),
    };
    let answer = match reader.reply() {
        Ok(text) => Ok(Answer::Reply {
            text,
            len: reader.at,
        }),
        Err(Stop::Torn) => Ok(Answer::Torn),
        Err(Stop::Refused) => Ok(Answer::Refused),
        Err(Stop::Unfit(unfit)) => Err(unfit),
    };
    Reading {
        answer,
        met: reader.rules.into_met(),
    }
}

/// The place of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Top,
    /// The first element of a push.
    PushKind,
    Inside,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    rules: Rules,
}

/// Values. `depth` is how many aggregates are open around them.
impl Reader<'_> {
    fn reply(&mut self) -> Result<String, Stop> {
        let node = self.element(Place::Top, 0)?;
        if node.marks.not_utf8 {
            self.rules.forbid(Difference::ErrorText)?;
        }
        Ok(node.text)
    }

    /// Reads a value, and the attributes before it.
    fn element(&mut self, place: Place, depth: usize) -> Result<Node, Stop> {
        let mut attributes: Option<Vec<Entry>> = None;
        loop {
            let kind = self.kind(place, depth)?;
            if kind == b'|' {
                if attributes.is_some() {
                    self.rules.forbid(Difference::AttributeTwice)?;
                }
                let pairs = self.pairs(kind, depth)?;
                attributes.get_or_insert_default().extend(pairs);
                continue;
            }
            let node = self.value(kind, depth)?;
            let Some(attributes) = attributes else {
                return Ok(node);
            };
            if !node.takes_attributes() {
                self.rules.forbid(Difference::AttributeOfNull)?;
            }
            return Ok(node.with(&Node::bag(b'|', &attributes)));
        }
    }

    /// Returns the byte of a type, if this type is allowed there.
    fn kind(&mut self, place: Place, depth: usize) -> Result<u8, Stop> {
        let (kind, next) = match *self.rest() {
            [] => return Err(Stop::Torn),
            [kind, ref rest @ ..] => (kind, rest.first().copied()),
        };
        if b"_#,(!=%~>|".contains(&kind) {
            self.rules.forbid(Difference::Resp3Kind)?;
        }
        let says_kind = b"+|".contains(&kind) || kind == b'$' && next != Some(b'-');
        if place == Place::PushKind && !says_kind {
            self.rules.allow(Difference::PushKind)?;
        }
        if place != Place::Top && kind == b'>' {
            self.rules.allow(Difference::PushInside)?;
        }
        // A null is not an array, in any spelling.
        let array = kind == b'*' && next.is_some_and(|next| next != b'-');
        if array || b"%~>|".contains(&kind) {
            if Limits::default().depth <= depth {
                self.rules.allow(Difference::Depth)?;
            }
            if THEIR_DEPTH_MAX <= depth {
                return Err(Stop::Unfit(Unfit::Deep));
            }
        }
        self.at += 1;
        Ok(kind)
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<Node, Stop> {
        Ok(match kind {
            b'+' => Node::string(kind, self.line(LONG, text)?.0),
            b'-' => Node::utf8(kind, self.line(LONG, text)?.0),
            b':' => {
                let (_, integer) = self.line(SHORT, spelling::integer)?;
                Node::plain(kind, format!(":{integer}"))
            }
            b'$' => match self.length(kind)? {
                Length::Null => self.old_null()?,
                Length::Of(length) => Node::string(kind, self.payload(length)?),
            },
            b'*' => match self.length(kind)? {
                Length::Null => self.old_null()?,
                Length::Of(count) => Node::list(kind, &self.items(kind, count, depth)?),
            },
            b'_' => {
                self.line(SHORT, nothing)?;
                Node::null()
            }
            b'#' => {
                let (_, value) = self.line(SHORT, boolean)?;
                Node::plain(kind, answer::boolean(value))
            }
            b',' => Node::double(self.line(LONG, double)?.1),
            b'(' => Node::string(kind, self.line(LONG, big_number)?.0),
            b'!' => {
                let length = self.count(kind)?;
                Node::string(kind, self.payload(length)?)
            }
            b'=' => self.verbatim()?,
            b'>' => {
                let count = self.count(kind)?;
                Node::list(kind, &self.items(kind, count, depth)?)
            }
            b'%' => Node::bag(kind, &self.pairs(kind, depth)?),
            b'~' => {
                let count = self.count(kind)?;
                let items = self.items(kind, count, depth)?.into_iter();
                let entries = items.map(|key| Entry { key, value: None });
                Node::bag(kind, &hashed(entries.collect(), &mut self.rules)?)
            }
            b';' | b'.' => self.chunk(kind)?,
            b'H' => self.hello()?,
            _ => return Err(Stop::Refused),
        })
    }

    fn old_null(&mut self) -> Result<Node, Stop> {
        self.rules.forbid(Difference::OldNull)?;
        Ok(Node::null())
    }

    fn items(&mut self, kind: u8, count: usize, depth: usize) -> Result<Vec<Node>, Stop> {
        let mut items = Vec::new();
        for index in 0..count {
            let place = if kind == b'>' && index == 0 {
                Place::PushKind
            } else {
                Place::Inside
            };
            items.push(self.element(place, depth + 1)?);
        }
        Ok(items)
    }

    fn pairs(&mut self, kind: u8, depth: usize) -> Result<Vec<Entry>, Stop> {
        let count = self.count(kind)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let key = self.element(Place::Inside, depth + 1)?;
            let value = Some(self.element(Place::Inside, depth + 1)?);
            entries.push(Entry { key, value });
        }
        hashed(entries, &mut self.rules)
    }

    fn verbatim(&mut self) -> Result<Node, Stop> {
        let length = self.count(b'=')?;
        if length < 4 {
            // The other decoder looks at four bytes before it looks at the length.
            let torn = self.rest().len() < 4;
            return Err(if torn { Stop::Torn } else { Stop::Refused });
        }
        let payload = self.payload(length)?;
        if payload[3] != b':' {
            self.rules.allow(Difference::VerbatimColon)?;
        }
        let (format, text) = (&payload[..3], &payload[4..]);
        if !matches!(format, b"txt" | b"mkd") {
            self.rules.forbid(Difference::VerbatimFormat)?;
        }
        Ok(Node::verbatim(format, text))
    }

    /// Reads a chunk of a streamed string, or the end of something streamed.
    fn chunk(&mut self, kind: u8) -> Result<Node, Stop> {
        self.rules.allow(Difference::Chunk)?;
        let length = if kind == b';' {
            self.count(kind)?
        } else {
            self.line(LONG, |_, _| Ok(()))?;
            0
        };
        if length == 0 {
            return Ok(Node::plain(b';', answer::string(';', b"")));
        }
        Ok(Node::string(b';', self.payload(length)?))
    }

    /// Reads the first command of a client, as a line.
    fn hello(&mut self) -> Result<Node, Stop> {
        self.rules.allow(Difference::Hello)?;
        let (line, ()) = self.line(LONG, |_, _| Ok(()))?;
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"ELLO", b"2" | b"3", arguments @ ..] = &words[..] else {
            return Err(Stop::Refused);
        };
        match arguments {
            [] => return Ok(Node::plain(b'H', answer::string('H', words[1]))),
            [b"AUTH", _, _] | [b"SETNAME", _] | [b"AUTH", _, _, b"SETNAME", _] => (),
            _ => return Err(Stop::Refused),
        }
        Ok(Node::utf8(b'H', &words[1..].join(&b' ')))
    }
}

/// Lines and payloads.
impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Reads a line of at most `longest` bytes with its `syntax`.
    fn line<T>(
        &mut self,
        longest: usize,
        syntax: impl Fn(&[u8], &mut Rules) -> Result<T, Stop>,
    ) -> Result<(&'a [u8], T), Stop> {
        let rest = self.rest();
        let Some(stop) = rest.windows(2).position(|bytes| bytes == b"\r\n") else {
            let text = rest.strip_suffix(b"\r").unwrap_or(rest);
            let is_stray = text.iter().any(|byte| b"\r\n".contains(byte));
            if is_stray || longest < text.len() {
                self.rules.allow(Difference::LateRefusal)?;
            }
            return Err(Stop::Torn);
        };
        let value = syntax(&rest[..stop], &mut self.rules)?;
        self.at += stop + 2;
        Ok((&rest[..stop], value))
    }

    /// Reads the header of a string or an aggregate of this kind.
    fn length(&mut self, kind: u8) -> Result<Length, Stop> {
        let most = match kind {
            b'$' | b'!' | b'=' => Limits::default().bulk_bytes,
            b'%' | b'|' => Limits::default().elements / 2,
            b';' => usize::MAX,
            _ => Limits::default().elements,
        };
        let header = Header {
            most,
            signed: b"$*%~".contains(&kind),
            null: b"$*".contains(&kind),
        };
        let (_, length) = self.line(SHORT, |text, rules| {
            let length = spelling::length(text, &header, rules)?;
            match (kind, length) {
                (b'=', Length::Of(0..4)) => rules.allow(Difference::VerbatimShort)?,
                (b'>', Length::Of(0)) => rules.allow(Difference::PushKind)?,
                _ => (),
            }
            Ok(length)
        })?;
        Ok(length)
    }

    /// Like `length`, for a kind that has no null.
    fn count(&mut self, kind: u8) -> Result<usize, Stop> {
        match self.length(kind)? {
            Length::Of(count) => Ok(count),
            Length::Null => Err(Stop::Refused),
        }
    }

    /// Reads a payload and its CR LF.
    fn payload(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let rest = self.rest();
        let Some((payload, behind)) = rest.split_at_checked(length) else {
            return Err(Stop::Torn);
        };
        let end = behind.get(..2).ok_or(Stop::Torn)?;
        if end != b"\r\n" {
            self.rules.allow(Difference::PayloadEnd)?;
        }
        self.at += length + 2;
        Ok(payload)
    }
}

fn text(text: &[u8], rules: &mut Rules) -> Result<(), Stop> {
    if text.iter().any(|byte| b"\r\n".contains(byte)) {
        rules.allow(Difference::StrayLineEnd)?;
    }
    bounded(text, rules)
}

fn bounded(text: &[u8], rules: &mut Rules) -> Result<(), Stop> {
    if Limits::default().line_bytes < text.len() {
        rules.allow(Difference::Bounds)?;
    }
    Ok(())
}

fn nothing(text: &[u8], rules: &mut Rules) -> Result<(), Stop> {
    if !text.is_empty() {
        rules.allow(Difference::NullUnread)?;
    }
    Ok(())
}

fn boolean(text: &[u8], _: &mut Rules) -> Result<bool, Stop> {
    match text {
        b"t" => Ok(true),
        b"f" => Ok(false),
        _ => Err(Stop::Refused),
    }
}

fn double(text: &[u8], rules: &mut Rules) -> Result<f64, Stop> {
    let value = spelling::double(text, rules)?;
    bounded(text, rules)?;
    Ok(value)
}

fn big_number(text: &[u8], rules: &mut Rules) -> Result<(), Stop> {
    spelling::big_number(text, rules)?;
    bounded(text, rules)
}
