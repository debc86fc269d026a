//! The commands of a lock on several resources, as bytes.
//!
//! They are scripts. They are sent by their text, because the number of keys differs and such locks are rare. Every
//! kind of node takes the same form, except for the marker. See [`script::several`](super::script).

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::resource::{BARRIER_KEY, MARKER_KEY};
use crate::resp::{Decimal, argument, write};

use super::request::Question;
use super::script::{CONFIRM_SEVERAL, EXTEND_SEVERAL, RELEASE_SEVERAL, Script, TAKE_SEVERAL};

/// The commands that a lock on several resources needs. Their order matches `TO_LOCK` in `permission.rs`, which names
/// the command that an answer says is missing. Such a lock is always released by the text of a script.
const TO_LOCK_SEVERAL: [&str; 3] = ["get", "del", "set"];

/// The argument in place of a marker if none is checked: an empty one.
pub(super) const NO_MARKER: &[u8] = b"$0\r\n\r\n";

/// Takes all keys of `entry` for `ttl`, or none. Each such command also asks whether the user may release them.
#[cold]
#[inline(never)]
pub(super) fn take(out: &mut Vec<u8>, entry: &Entry, ttl: Duration, marker: Option<&[u8]>) {
    let ttl = Decimal::millis(ttl);
    take_if_permitted(out, entry, ttl.as_bytes(), marker, &TO_LOCK_SEVERAL);
}

/// Takes the keys if the user may run all of `commands`. With an empty ttl it only asks which of them the user may not
/// run.
#[cold]
#[inline(never)]
pub(super) fn take_if_permitted(
    out: &mut Vec<u8>,
    entry: &Entry,
    ttl: &[u8],
    marker: Option<&[u8]>,
    commands: &[&'static str],
) {
    head(out, &TAKE_SEVERAL, entry, marker, 2 + commands.len());
    argument(out, ttl);
    out.extend_from_slice(marker.unwrap_or(NO_MARKER));
    for command in commands {
        argument(out, command.as_bytes());
    }
}

/// Deletes the keys of `entry` that hold its token.
#[cold]
#[inline(never)]
pub(super) fn release(out: &mut Vec<u8>, entry: &Entry) {
    head(out, &RELEASE_SEVERAL, entry, None, 0);
}

/// Asks `question` about `entry`.
#[cold]
#[inline(never)]
pub(super) fn question(
    question: Question,
    out: &mut Vec<u8>,
    entry: &Entry,
    ttl: &[u8],
    marker: Option<&[u8]>,
) {
    let (script, ttl) = match question {
        Question::Extend => (&EXTEND_SEVERAL, ttl),
        Question::Confirm => (&CONFIRM_SEVERAL, &b""[..]),
        Question::Inspect | Question::Overwrite => unreachable!("it is about one resource"),
    };
    head(out, script, entry, marker, 2);
    argument(out, ttl);
    out.extend_from_slice(marker.unwrap_or(NO_MARKER));
}

/// Writes the command up to the token, with room for this number of further `arguments`.
fn head(
    out: &mut Vec<u8>,
    script: &Script,
    entry: &Entry,
    marker: Option<&[u8]>,
    arguments: usize,
) {
    let guard: &[&[u8]] = match marker {
        None => &[],
        Some(_) => &[MARKER_KEY, BARRIER_KEY],
    };
    let keys = entry.names().len() + guard.len();
    write::array(out, 4 + keys + arguments);
    argument(out, b"EVAL");
    argument(out, script.text.as_bytes());
    argument(out, Decimal::new(keys as u64).as_bytes());
    out.extend_from_slice(entry.key_arguments());
    for key in guard {
        argument(out, key);
    }
    out.extend_from_slice(entry.token_argument());
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::super::request::Dialect;
    use super::super::trust::marker::MARKER_BYTES_MAX;
    use super::*;
    use crate::limits::{RESOURCE_BYTES_MAX, RESOURCES_MAX, SEVERAL_BYTES_MAX, TOKEN_BYTES_MAX};
    use alloc::string::String;
    use alloc::vec;

    fn entry() -> Entry {
        Entry::of_several(Vec::new(), [&b"a"[..], b"b\r\n"].into_iter(), b"token")
    }

    /// A command without its text.
    fn shown(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        super::super::fencing::tests::shown(&out)
    }

    #[test]
    fn the_commands_are_what_the_servers_read() {
        let (entry, ttl) = (entry(), Duration::from_secs(10));
        let mut marker = Vec::new();
        argument(&mut marker, b"m");
        for dialect in [
            Dialect::Sha1,
            Dialect::Text,
            Dialect::DelIfEq,
            Dialect::DelEx,
        ] {
            let plain = shown(|out| command::set(out, &entry, ttl, None, dialect));
            assert_eq!(plain, r"EVAL 2 a b\r\n token 10000  get del set");
            let checked = shown(|out| command::set(out, &entry, ttl, Some(&marker), dialect));
            let keys = r"EVAL 4 a b\r\n shearline:marker shearline:barrier token";
            assert_eq!(checked, alloc::format!("{keys} 10000 m get del set"));
            let release = shown(|out| command::release(out, &entry, dialect));
            assert_eq!(release, r"EVAL 2 a b\r\n token");
            let ask = |question: Question, marker| {
                shown(|out| question.write(out, &entry, ttl, marker, dialect))
            };
            assert_eq!(ask(Question::Extend, None), r"EVAL 2 a b\r\n token 10000 ");
            assert_eq!(ask(Question::Confirm, None), r"EVAL 2 a b\r\n token  ");
            let marker = Some(&marker[..]);
            assert_eq!(
                ask(Question::Extend, marker),
                alloc::format!("{keys} 10000 m")
            );
            assert_eq!(ask(Question::Confirm, marker), alloc::format!("{keys}  m"));
        }
    }

    #[test]
    fn no_command_is_longer_than_its_limit() {
        let long = vec![b'k'; RESOURCE_BYTES_MAX];
        let names = core::iter::repeat_n(&long[..], RESOURCES_MAX);
        let entry = Entry::of_several(Vec::new(), names, &[b't'; TOKEN_BYTES_MAX]);
        let mut marker = Vec::new();
        argument(&mut marker, &[b'm'; MARKER_BYTES_MAX]);
        let mut out = Vec::new();
        take(&mut out, &entry, Duration::MAX, Some(&marker));
        assert!(out.len() <= SEVERAL_BYTES_MAX, "{}", out.len());
    }
}
