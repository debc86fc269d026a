//! The known differences between our decoder and `redis-protocol` 6.0, and which of them is right.
//!
//! The specification decides: the "Redis serialization protocol specification" (redis.io), cited by the name of a
//! section, and the "RESP3 specification" 1.6 (redis/redis-specifications), cited as RESP3. Both are given in our
//! words.

use shearline::internals::resp::Limits;

use super::answer::{Answer, Dialect};
use super::elements::Element;

/// A difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    /// The other decoders that have this difference.
    pub(crate) of: &'static [Dialect],
    /// Returns `true` for an element in which the difference shows.
    shows: fn(&Element<'_>) -> bool,
    /// A few bytes that show this difference and no other.
    pub(crate) example: &'static [u8],
    /// The answers to these bytes: of our decoder, and of the other one.
    pub(crate) answers: [&'static str; 2],
}

type Text = &'static str;

const fn known(name: Text, of: &'static [Dialect]) -> Known {
    Known {
        name,
        of,
        shows: |_| false,
        example: b"",
        answers: [""; 2],
    }
}

impl Known {
    const fn shows(self, shows: fn(&Element<'_>) -> bool) -> Self {
        Self { shows, ..self }
    }

    const fn example(self, example: &'static [u8], ours: Text, theirs: Text) -> Self {
        let answers = [ours, theirs];
        Self {
            example,
            answers,
            ..self
        }
    }

    /// Returns `true` if this difference explains why these answers differ.
    pub(crate) fn explains(
        &self,
        elements: &[Element<'_>],
        ours: &Answer,
        theirs: &Answer,
    ) -> bool {
        let refused = self.answers.map(|answer| answer == "refused");
        let mut shown = elements.iter().filter(|one| (self.shows)(one));
        match (ours, theirs) {
            (Answer::Refused { at }, _) => {
                let wrong = elements.iter().rfind(|one| one.range.start <= *at);
                refused[0] && wrong.is_some_and(self.shows)
            }
            (_, Answer::Refused { .. }) => refused[1] && shown.next().is_some(),
            // Theirs has left out a part.
            _ => {
                let (ours, theirs) = (ours.to_string(), theirs.to_string());
                let mut rest = ours.chars();
                let is_part = theirs
                    .chars()
                    .all(|letter| rest.any(|other| other == letter));
                refused == [false; 2] && shown.next().is_some() && is_part
            }
        }
    }
}

const BOTH: &[Dialect] = &Dialect::ALL;
const RESP3: &[Dialect] = &[Dialect::Resp3];

const DEEP: &[u8] = b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n\
    *1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n\
    *1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n";
const DEEP_ANSWER: &str = "*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[*[\
    ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]] in 132";

/// All known differences.
pub(crate) const KNOWN: [Known; 31] = [
    // The specification supports ours.

    // Simple strings: neither a CR nor an LF may be in it.
    known("stray line end", BOTH)
        .shows(|one| b"+-".contains(&one.kind) && has_line_end(one.text))
        .example(b"+a\nb\r\n", "refused", "+\"a\\nb\" in 6"),
    // Bulk strings: behind the data comes a final CR LF. Theirs skips two bytes, whatever they are, and with them the
    // sign that the two sides have lost each other.
    known("payload end", BOTH)
        .shows(|one| one.payload.is_some_and(|(_, end)| end != b"\r\n"))
        .example(b"$1\r\na:1", "refused", "$\"a\" in 7"),
    // Simple errors: like simple strings, from which only CR and LF are kept out. Servers put arguments of the client
    // into them, which may be any bytes.
    known("text of an error", BOTH)
        .shows(|one| one.kind == b'-' && std::str::from_utf8(one.text).is_err())
        .example(b"-\xff\r\n", "-\"\\xff\" in 4", "refused"),
    // Bulk strings, arrays: a length is digits, without a sign.
    known("length with a plus", BOTH)
        .shows(|one| one.has_length() && one.text.starts_with(b"+"))
        .example(b"$+1\r\na\r\n", "refused", "$\"a\" in 8"),
    // Bulk strings, arrays: a length has no sign; the one exception is -1, the null.
    known("length -0", BOTH)
        .shows(|one| one.has_length() && one.is_negative() && one.number() == Some(0))
        .example(b"$-0\r\n\r\n", "refused", "$\"\" in 7"),
    // RESP versions: RESP3 is a superset of RESP2, of which this is the null. Theirs takes -1 for the sign of
    // something streamed.
    known("null of RESP2", RESP3)
        .shows(|one| b"$*".contains(&one.kind) && one.text == b"-1")
        .example(b"$-1\r\n", "_ in 5", "refused"),
    // Nulls: the underscore and CR LF, with nothing between them.
    known("text of a null", RESP3)
        .shows(|one| one.kind == b'_' && !one.text.is_empty())
        .example(b"_x\r\n", "refused", "_ in 4"),
    // Doubles: one digit or more before the point. RESP3 adds that to begin with the point is invalid.
    known("double without integral part", RESP3)
        .shows(|one| one.double().is_some() && one.unsigned().starts_with(b"."))
        .example(b",.5\r\n", "refused", ",0.5 in 5"),
    // Doubles: a point is followed by one digit or more.
    known("double without fraction", RESP3)
        .shows(|one| one.double().is_some() && has_point_without_fraction(one.text))
        .example(b",5.\r\n", "refused", ",5.0 in 5"),
    // Doubles: the words are inf, -inf and nan. For servers before 7.2 RESP3 asks readers to cope with other names of
    // NaN as well; of these ours takes -nan, the only one that such a server was seen to send.
    known("words of doubles", RESP3)
        .shows(|one| one.double().is_some() && is_other_word(one.text))
        .example(b",infinity\r\n", "refused", ",inf in 11"),
    // Big numbers: one digit or more, and nothing else behind the sign.
    known("text of a big number", RESP3)
        .shows(|one| one.kind == b'(' && one.digits().is_none())
        .example(b"(12x\r\n", "refused", "(\"12x\" in 6"),
    // Verbatim strings: the length counts three bytes and a colon. Theirs refuses as well, but only when four more
    // bytes have arrived.
    known("short verbatim string", RESP3)
        .shows(|one| one.kind == b'=' && one.number() < Some(4))
        .example(b"=3\r\n", "refused", "more"),
    // Verbatim strings: a colon stands between the encoding and the data.
    known("colon of a verbatim string", RESP3)
        .shows(|one| verbatim(one).is_some_and(|text| text[3] != b':'))
        .example(b"=5\r\ntxt;a\r\n", "refused", "=\"txt:a\" in 11"),
    // Verbatim strings: exactly three bytes say what the encoding is. RESP3 names txt and mkd, but does not close the
    // list.
    known("format of a verbatim string", RESP3)
        .shows(|one| verbatim(one).is_some_and(|text| !matches!(&text[..3], b"txt" | b"mkd")))
        .example(b"=5\r\nxml:a\r\n", "=\"xml:a\" in 11", "refused"),
    // RESP3, streamed strings: chunks and the end are parts of what began with a question mark. Theirs leaves it to
    // its caller to put them together.
    known("chunk", RESP3)
        .shows(|one| b";.".contains(&one.kind))
        .example(b";1\r\na\r\n", "refused", ";\"a\" in 7"),
    // RESP3, the HELLO command: what a server answers is a map. The line is what a client sends.
    known("command of a client", RESP3)
        .shows(|one| one.kind == b'H')
        .example(b"HELLO 3\r\n", "refused", "H\"\" in 9"),
    // RESP3, push type: always at the top level, never in the middle of a reply.
    known("push inside", RESP3)
        .shows(|one| one.kind == b'>' && one.depth != 0)
        .example(b"*1\r\n>1\r\n+a\r\n", "refused", "*[>[+\"a\"]] in 12"),
    // RESP3, push type: the first element is always a string, the kind of the push.
    known("kind of a push", RESP3).shows(has_no_kind).example(
        b">1\r\n:1\r\n",
        "refused",
        ">[:1] in 8",
    ),
    // Maps: keys and values can be of any type. RESP3: so can elements of sets.
    known("aggregate as a key", RESP3)
        .shows(|one| one.is_key && b"*%~>".contains(&one.kind))
        .example(b"%1\r\n*0\r\n+a\r\n", "%[*[] +\"a\"] in 12", "refused"),
    // RESP3, attribute type: attributes can stand before any type.
    known("attributes of a null", RESP3)
        .shows(|one| one.is_attributed && one.kind == b'_')
        .example(b"|0\r\n_\r\n", "_ in 7", "refused"),
    // RESP3, attribute type: attributes can stand before any type, of which they are one; a reader that meets them
    // reads on.
    known("attributes twice", RESP3)
        .shows(|one| one.is_attributed && one.kind == b'|')
        .example(b"|0\r\n|0\r\n:1\r\n", ":1 in 12", "refused"),
    // The specification leaves it open.

    // Nothing is said about when a reader has to notice. Theirs looks at a line when its end has arrived, ours also
    // when it is longer than it may be, or has a CR or an LF.
    known("late refusal", BOTH)
        .shows(is_late)
        .example(b":1\n", "refused", "more"),
    // Bulk strings may have any size, and aggregates any number of elements; what a reader is willing to hold is its
    // own affair. Theirs holds what it is sent.
    known("bounds", BOTH)
        .shows(is_out_of_bounds)
        .example(b"*65537\r\n", "refused", "more"),
    // Arrays: all aggregates can be nested, to no given depth. Theirs has no bound but the stack of its thread.
    known("depth", BOTH)
        .shows(|one| one.is_aggregate() && Limits::default().depth <= one.depth)
        .example(DEEP, "refused", DEEP_ANSWER),
    // The table of types names for each the least version. Ours is not told which one was agreed on, and RESP3
    // contains RESP2.
    known("type of RESP3", &[Dialect::Resp2])
        .shows(|one| b"_#,(!=%~>|".contains(&one.kind))
        .example(b"#t\r\n", "#true in 4", "refused"),
    // Doubles: the grammar bounds no exponent, but what it spells is a double, which this is not. Theirs rounds it to
    // infinity, which has a word of its own.
    known("double that overflows", RESP3)
        .shows(|one| one.double().is_some_and(f64::is_infinite) && has_digit(one.text))
        .example(b",1e400\r\n", "refused", ",inf in 8"),
    // RESP3, set reply: a reader may drop repeated elements, and one that returns what it read may pass them on. Of
    // equal keys theirs keeps the first value.
    known("repeated key", RESP3)
        .shows(|one| one.is_key)
        .example(b"~2\r\n:1\r\n:1\r\n", "~[:1 :1] in 12", "~[:1] in 12"),
    // The specification supports theirs, and ours follows the servers. Ours is stricter than the specification in the
    // spelling of numbers only.

    // Integers: one digit or more, of which none is kept from being a zero. No server writes one in front, and the
    // servers' own reader refuses it.
    known("integer with leading zeros", BOTH)
        .shows(|one| one.kind == b':' && one.has_leading_zero())
        .example(b":007\r\n", "refused", ":7 in 6"),
    // Integers: any digits may follow a minus sign. No server writes this, and the servers' own reader refuses it.
    known("integer -0", BOTH)
        .shows(|one| one.kind == b':' && one.is_negative() && one.number() == Some(0))
        .example(b":-0\r\n", "refused", ":0 in 5"),
    // Bulk strings, arrays: one digit or more. Ours wants one spelling only of what says where a reply ends, and it
    // is the only one that servers write.
    known("length with leading zeros", BOTH)
        .shows(|one| one.has_length() && one.has_leading_zero())
        .example(b"$01\r\na\r\n", "refused", "$\"a\" in 8"),
    // Doubles: the integral part is one digit or more. No server writes a zero in front of others.
    known("double with leading zeros", RESP3)
        .shows(|one| one.double().is_some() && one.has_leading_zero())
        .example(b",01.5\r\n", "refused", ",1.5 in 7"),
];

fn has_line_end(text: &[u8]) -> bool {
    text.iter().any(|byte| b"\r\n".contains(byte))
}

fn has_digit(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit)
}

/// Returns `true` for a line that is wrong or too long before its end has arrived.
fn is_late(one: &Element<'_>) -> bool {
    let text = one.text.strip_suffix(b"\r").unwrap_or(one.text);
    let most = if b"+-,(".contains(&one.kind) {
        Limits::default().line_bytes
    } else {
        20
    };
    one.is_torn && (has_line_end(text) || most < text.len())
}

fn is_out_of_bounds(one: &Element<'_>) -> bool {
    let limits = Limits::default();
    let most = match one.kind {
        b'$' | b'!' | b'=' => limits.bulk_bytes,
        b'%' | b'|' => limits.elements / 2,
        b'*' | b'~' | b'>' => limits.elements,
        _ => return b"+-,(".contains(&one.kind) && limits.line_bytes < one.text.len(),
    };
    one.number().is_some_and(|number| most < number)
}

fn has_point_without_fraction(double: &[u8]) -> bool {
    let mut number = double.split(|byte| b"eE".contains(byte));
    number.next().is_some_and(|number| number.ends_with(b"."))
}

fn is_other_word(double: &[u8]) -> bool {
    !has_digit(double) && !matches!(double, b"inf" | b"-inf" | b"nan" | b"-nan")
}

fn verbatim<'a>(one: &Element<'a>) -> Option<&'a [u8]> {
    let payload = one.payload.filter(|_| one.kind == b'=');
    payload.map(|(text, _)| text).filter(|text| 4 <= text.len())
}

/// Returns `true` for a push without a kind, and for a kind that is not a string.
fn has_no_kind(one: &Element<'_>) -> bool {
    let is_string = match one.kind {
        b'+' | b'|' => true,
        b'$' => !one.is_negative(),
        _ => false,
    };
    one.is_push_kind && !is_string || one.kind == b'>' && one.number() == Some(0)
}
