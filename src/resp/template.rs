//! Templates for frequent commands, which are encoded in advance, with holes for the variable parts.
//!
//! Each write only fills in the variable parts. All other bytes, including the headers and the number of arguments, are
//! built from the words at compile time, so the lengths in the headers are always right.
//!
//! The function [`command`](super::command()) writes commands whose words are known only when they are sent.

use core::fmt;

use bytes::BufMut;

use super::command::argument;
use super::decimal::Decimal;

/// A word of a [`Template`].
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the author of a command knows what its words are"
)]
pub enum Word<'a> {
    /// A constant text.
    Text(&'a [u8]),
    /// A variable text, passed without a header.
    Hole,
    /// A number of consecutive arguments that the caller passes in wire form, as [`argument`] writes them. Arguments
    /// that several commands share need to be encoded only once.
    Encoded(usize),
}

/// A command whose constant parts are encoded in advance. A template has `HOLES` holes, and at most `BYTES` constant
/// bytes around the holes.
///
/// In a `static` or `const`, a wrong value of `HOLES` or `BYTES` is a compile error. [`Template::write`] costs little
/// more than a copy for each hole.
///
/// ```
/// # #[cfg(feature = "internals")] {
/// use shearline::internals::resp::{Decimal, Template, Word, argument};
///
/// static ACQUIRE: Template<2, 32> = Template::new(&[
///     Word::Text(b"SET"),
///     Word::Encoded(2),
///     Word::Text(b"NX"),
///     Word::Text(b"PX"),
///     Word::Hole,
/// ]);
/// static READ: Template<1, 16> = Template::new(&[Word::Text(b"GET"), Word::Hole]);
///
/// let mut entry = Vec::new();
/// argument(&mut entry, b"invoice:42");
/// argument(&mut entry, b"token");
///
/// let mut out = Vec::new();
/// ACQUIRE.write(&mut out, [&entry, Decimal::new(30_000).as_bytes()]);
/// READ.write(&mut out, [b"invoice:42"]);
/// assert_eq!(
///     out,
///     b"*6\r\n$3\r\nSET\r\n$10\r\ninvoice:42\r\n$5\r\ntoken\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n\
///       *2\r\n$3\r\nGET\r\n$10\r\ninvoice:42\r\n"
/// );
/// # }
/// ```
///
/// The next two examples do not compile. In the first, `BYTES` is too small. The second has a hole without a value:
///
/// ```compile_fail
/// # use shearline::internals::resp::{Template, Word};
/// static READ: Template<1, 9> = Template::new(&[Word::Text(b"GET"), Word::Hole]);
/// ```
///
/// ```compile_fail
/// # use shearline::internals::resp::{Template, Word};
/// # static READ: Template<1, 16> = Template::new(&[Word::Text(b"GET"), Word::Hole]);
/// READ.write(&mut Vec::new(), []);
/// ```
#[derive(Clone)]
pub struct Template<const HOLES: usize, const BYTES: usize> {
    /// The bytes before, between and after the holes, followed by zeros.
    bytes: [u8; BYTES],
    len: usize,
    holes: [Hole; HOLES],
}

#[derive(Clone, Copy)]
struct Hole {
    /// The number of constant bytes before the hole.
    at: usize,
    /// The number of arguments in wire form that fill the hole, or `None` for one argument without a header.
    encoded: Option<usize>,
}

impl<const HOLES: usize, const BYTES: usize> Template<HOLES, BYTES> {
    /// Returns the template of a command with these `words`.
    ///
    /// # Panics
    ///
    /// Panics if the number of holes in the words is not `HOLES`, or if there are more than `BYTES` constant bytes. In
    /// a `static` or `const`, the panic is a compile error.
    #[must_use]
    pub const fn new(words: &[Word<'_>]) -> Self {
        const UNSET: Hole = Hole {
            at: 0,
            encoded: None,
        };
        let mut template = Self {
            bytes: [0; BYTES],
            len: 0,
            holes: [UNSET; HOLES],
        };
        template.header(b'*', count(words));
        let (mut word, mut holes) = (0, 0);
        while word < words.len() {
            match words[word] {
                Word::Text(text) => template.text(text),
                Word::Hole => {
                    template.hole(holes, None);
                    holes += 1;
                }
                Word::Encoded(arguments) => {
                    template.hole(holes, Some(arguments));
                    holes += 1;
                }
            }
            word += 1;
        }
        assert!(holes == HOLES, "fewer holes than the type says");
        template
    }

    /// Appends the command, with its holes filled in order.
    ///
    /// Allocates only if `out` must grow. The text for a [`Word::Encoded`] is copied unchanged. If the text has a wrong
    /// form, or a wrong number of arguments, the node misreads the rest of the stream.
    ///
    /// # Panics
    ///
    /// Panics if `out` has a fixed size and is too small. With debug assertions, also panics if the text for
    /// a [`Word::Encoded`] has a wrong form.
    // Always inlined, so that the pieces of a `static` template are constants in the caller.
    #[inline(always)]
    pub fn write<B: BufMut + ?Sized>(&self, out: &mut B, fillings: [&[u8]; HOLES]) {
        let mut from = 0;
        for (hole, filling) in self.holes.iter().zip(fillings) {
            out.put_slice(&self.bytes[from..hole.at]);
            match hole.encoded {
                None => fill(out, filling),
                Some(arguments) => {
                    debug_assert!(are_arguments(filling, arguments), "not in wire form");
                    out.put_slice(filling);
                }
            }
            from = hole.at;
        }
        out.put_slice(&self.bytes[from..self.len]);
    }

    const fn hole(&mut self, index: usize, encoded: Option<usize>) {
        assert!(index < HOLES, "more holes than the type says");
        self.holes[index] = Hole {
            at: self.len,
            encoded,
        };
    }

    const fn text(&mut self, text: &[u8]) {
        self.header(b'$', text.len());
        self.put(text);
        self.put(b"\r\n");
    }

    const fn header(&mut self, kind: u8, count: usize) {
        self.put(&[kind]);
        self.put(Decimal::new(count as u64).as_bytes());
        self.put(b"\r\n");
    }

    const fn put(&mut self, text: &[u8]) {
        let (_, free) = self.bytes.split_at_mut(self.len);
        assert!(
            text.len() <= free.len(),
            "more bytes around the holes than the type says"
        );
        let (place, _) = free.split_at_mut(text.len());
        place.copy_from_slice(text);
        self.len += text.len();
    }
}

/// Fills a hole with a text. The function is not inlined, because the compiler unrolls the loop over the holes only if
/// the loop is short. After unrolling, the pieces of a `static` template have constant lengths.
#[inline(never)]
fn fill<B: BufMut + ?Sized>(out: &mut B, text: &[u8]) {
    argument(out, text);
}

/// Returns the number of arguments of a command with these words.
const fn count(words: &[Word<'_>]) -> usize {
    let (mut arguments, mut word) = (0, 0);
    while word < words.len() {
        arguments += match words[word] {
            Word::Text(_) | Word::Hole => 1,
            Word::Encoded(arguments) => arguments,
        };
        word += 1;
    }
    arguments
}

/// Returns `true` if `bytes` consist of exactly this number of `arguments` in wire form.
fn are_arguments(mut bytes: &[u8], arguments: usize) -> bool {
    for _ in 0..arguments {
        let Some(rest) = behind_argument(bytes) else {
            return false;
        };
        bytes = rest;
    }
    bytes.is_empty()
}

/// Returns the bytes after the first argument in wire form.
fn behind_argument(bytes: &[u8]) -> Option<&[u8]> {
    let (header, rest) = bytes.split_at(bytes.iter().position(|&byte| byte == b'\r')?);
    let len = core::str::from_utf8(header.strip_prefix(b"$")?).ok()?;
    let rest = rest.strip_prefix(b"\r\n")?.get(len.parse().ok()?..)?;
    rest.strip_prefix(b"\r\n")
}

impl<const HOLES: usize, const BYTES: usize> fmt::Debug for Template<HOLES, BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(")?;
        let mut from = 0;
        for hole in &self.holes {
            write!(f, "{}", self.bytes[from..hole.at].escape_ascii())?;
            f.write_str("{}")?;
            from = hole.at;
        }
        write!(f, "{})", self.bytes[from..self.len].escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::Word::{Encoded, Hole, Text};
    use super::*;
    use crate::resp::command;
    use alloc::format;
    use alloc::vec::Vec;

    /// Returns the bytes that `template` appends to a buffer with content.
    fn written<const HOLES: usize, const BYTES: usize>(
        template: &Template<HOLES, BYTES>,
        fillings: [&[u8]; HOLES],
    ) -> Vec<u8> {
        let mut out = b"before".to_vec();
        template.write(&mut out, fillings);
        out.split_off(b"before".len())
    }

    /// Asserts that `template` writes what the general encoder writes for `words`.
    #[track_caller]
    fn assert_writes<const HOLES: usize, const BYTES: usize>(
        template: Template<HOLES, BYTES>,
        fillings: [&[u8]; HOLES],
        words: &[&[u8]],
    ) {
        let mut encoded = Vec::new();
        command(&mut encoded, words);
        assert_eq!(written(&template, fillings), encoded);
    }

    fn arguments(texts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        texts.iter().for_each(|text| argument(&mut out, text));
        out
    }

    #[test]
    fn holes_may_stand_anywhere() {
        assert_writes(Template::<0, 64>::new(&[]), [], &[]);
        let constant: Template<0, 64> = Template::new(&[Text(b"PING"), Text(b"")]);
        assert_writes(constant, [], &[b"PING", b""]);
        let first: Template<1, 64> = Template::new(&[Hole, Text(b"k")]);
        assert_writes(first, [b"GET"], &[b"GET", b"k"]);
        let last: Template<1, 64> = Template::new(&[Text(b"GET"), Hole]);
        assert_writes(last, [b"k\r\n"], &[b"GET", b"k\r\n"]);
        let only: Template<3, 4> = Template::new(&[Hole, Hole, Hole]);
        assert_writes(only, [b"SET", b"", b"\0"], &[b"SET", b"", b"\0"]);
        let around: Template<2, 64> = Template::new(&[Text(b"A"), Hole, Text(b"B"), Hole]);
        assert_writes(around, [b"1", b"2"], &[b"A", b"1", b"B", b"2"]);
    }

    #[test]
    fn encoded_arguments_are_counted_and_copied() {
        let words = [
            Encoded(1),
            Text(b"x"),
            Encoded(3),
            Encoded(0),
            Hole,
            Text(b"y"),
        ];
        let (one, three) = (arguments(&[b"SET"]), arguments(&[b"a", b"", b"$1\r\n"]));
        let expected: [&[u8]; 7] = [b"SET", b"x", b"a", b"", b"$1\r\n", b"b", b"y"];
        let template: Template<4, 64> = Template::new(&words);
        assert_writes(template, [&one, &three, b"", b"b"], &expected);
    }

    #[test]
    fn long_words_and_many_words() {
        let long = [b'x'; 1234];
        let template: Template<1, 1300> = Template::new(&[Text(&long), Hole]);
        assert_writes(template, [&long], &[&long, &long]);
        let words = [b"w".as_slice(); 123];
        let template: Template<0, 1000> = Template::new(&words.map(Text));
        assert_writes(template, [], &words);
    }

    #[test]
    fn a_buffer_of_the_very_size_suffices() {
        static GET: Template<1, 13> = Template::new(&[Text(b"GET"), Hole]);
        let mut out = [0; 20];
        GET.write(&mut &mut out[..], [b"k"]);
        assert_eq!(&out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }

    #[test]
    fn only_whole_arguments_pass_for_arguments() {
        let two = arguments(&[b"a\r\n", &[b'b'; 100]]);
        assert!(are_arguments(&two, 2));
        assert!(are_arguments(b"", 0));
        for count in [0, 1, 3] {
            assert!(!are_arguments(&two, count), "{count}");
        }
        for cut in 1..two.len() {
            assert!(!are_arguments(&two[..cut], 2), "{cut}");
            assert!(!are_arguments(&two[cut..], 2), "{cut}");
        }
        for wrong in [
            "token",
            "$5\r\ntoken",
            "$5\r\ntoken\n\n",
            "$4\r\ntoken\r\n",
            "$\r\n\r\n",
            "$-1\r\n",
            "+5\r\ntoken\r\n",
        ] {
            assert!(!are_arguments(wrong.as_bytes(), 1), "{wrong:?}");
        }
    }

    #[test]
    fn debug_shows_the_holes() {
        let template: Template<2, 64> =
            Template::new(&[Text(b"GET"), Hole, Text(b"x"), Encoded(1)]);
        assert_eq!(
            format!("{template:?}"),
            r"Template(*4\r\n$3\r\nGET\r\n{}$1\r\nx\r\n{})"
        );
    }
}
