//! The commands that a lock needs, as bytes.
//!
//! Each is a template that was encoded at compile time. Only the entry (key and token in wire form) is copied into it,
//! and the ttl is written. This is done once for each round and dialect, and the result is copied into the out buffer
//! of every node.
//!
//! Scripts are sent by their SHA-1 digest. A node that has forgotten them gets the text. A node that carries a marker
//! gets scripts that check it, except for releases: see [`script`]. The commands of a lock on several resources are in
//! [`several`].

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::resource::{BARRIER_KEY, MARKER_KEY};
use crate::resp::Word::{Encoded, Hole, Text};
use crate::resp::{Decimal, Template, command};

use super::request::Dialect;
use super::{script, several};

/// The commands that run a script. The last words of each are the keys and the arguments.
pub(super) struct Run<const HOLES: usize, const BYTES: usize> {
    by_sha1: Template<HOLES, 192>,
    by_text: Template<HOLES, BYTES>,
}

impl<const HOLES: usize, const BYTES: usize> Run<HOLES, BYTES> {
    // Always inlined, as `Template::write` is.
    #[inline(always)]
    pub(super) fn write(&self, out: &mut Vec<u8>, fillings: [&[u8]; HOLES], dialect: Dialect) {
        match dialect {
            Dialect::Text => self.by_text.write(out, fillings),
            Dialect::Sha1
            | Dialect::DelIfEq
            | Dialect::DelEx
            | Dialect::SetIfEq
            | Dialect::Watch => self.by_sha1.write(out, fillings),
        }
    }
}

macro_rules! run {
    ($script:expr, $($word:expr),+) => {
        Run {
            by_sha1: Template::new(&[Text(b"EVALSHA"), Text($script.sha1.as_bytes()), $($word),+]),
            by_text: Template::new(&[Text(b"EVAL"), Text($script.text.as_bytes()), $($word),+]),
        }
    };
}

/// The same for a script with a marker check. The marker is the last argument.
macro_rules! run_checked {
    ($script:expr $(, $word:expr)*) => {
        run!(
            $script,
            Text(b"3"),
            Encoded(1),
            Text(MARKER_KEY),
            Text(BARRIER_KEY)
            $(, $word)*,
            Encoded(1)
        )
    };
}

static PLAIN_SET: Template<2, 32> =
    Template::new(&[Text(b"SET"), Encoded(2), Text(b"NX"), Text(b"PX"), Hole]);
static CHECKED_SET: Run<4, 576> = run_checked!(script::CHECKED_ACQUIRE, Encoded(1), Hole);

static RUN_RELEASE: Run<1, 256> = run!(script::RELEASE, Text(b"1"), Encoded(2));
static DELIFEQ: Template<1, 32> = Template::new(&[Text(b"DELIFEQ"), Encoded(2)]);
static DELEX: Template<2, 32> =
    Template::new(&[Text(b"DELEX"), Encoded(1), Text(b"IFEQ"), Encoded(1)]);

static SET_IF_EQ: Template<2, 64> = Template::new(&[
    Text(b"SET"),
    Encoded(2),
    Text(b"IFEQ"),
    Encoded(1),
    Text(b"PXAT"),
    Text(b"1"),
]);

pub(super) static EXTEND: Run<2, 512> = run!(script::EXTEND, Text(b"1"), Encoded(2), Hole);
pub(super) static CHECKED_EXTEND: Run<4, 576> =
    run_checked!(script::CHECKED_EXTEND, Encoded(1), Hole);

pub(super) static CONFIRM: Run<1, 256> = run!(script::CONFIRM, Text(b"1"), Encoded(2));
pub(super) static CHECKED_CONFIRM: Run<3, 448> = run_checked!(script::CHECKED_CONFIRM, Encoded(1));

pub(super) static OVERWRITE: Run<2, 448> =
    run!(script::OVERWRITE, Text(b"1"), Encoded(2), Encoded(1));

pub(super) static INSPECT: Run<1, 576> = run!(script::INSPECT, Text(b"1"), Encoded(1));
pub(super) static CHECKED_INSPECT: Run<2, 640> = run_checked!(script::INSPECT);

/// The `SET` of `entry`: the command itself, or a script if it has to check `marker`.
///
/// Here and below, a marker is an argument in wire form.
pub(crate) fn set(
    out: &mut Vec<u8>,
    entry: &Entry,
    ttl: Duration,
    marker: Option<&[u8]>,
    dialect: Dialect,
) {
    if entry.is_several() {
        return several::take(out, entry, ttl, marker);
    }
    let ttl = Decimal::millis(ttl);
    let ttl = ttl.as_bytes();
    match marker {
        None => PLAIN_SET.write(out, [entry.arguments(), ttl]),
        Some(marker) => {
            let (key, token) = (entry.key_argument(), entry.token_argument());
            CHECKED_SET.write(out, [key, token, ttl, marker], dialect);
        }
    }
}

/// The release of `entry`, if the node's key holds its token.
pub(crate) fn release(out: &mut Vec<u8>, entry: &Entry, dialect: Dialect) {
    if entry.is_several() {
        return several::release(out, entry);
    }
    let arguments = entry.arguments();
    match dialect {
        Dialect::Sha1 | Dialect::Text => RUN_RELEASE.write(out, [arguments], dialect),
        Dialect::DelIfEq => DELIFEQ.write(out, [arguments]),
        Dialect::DelEx => DELEX.write(out, [entry.key_argument(), entry.token_argument()]),
        Dialect::SetIfEq => SET_IF_EQ.write(out, [arguments, entry.token_argument()]),
        Dialect::Watch => unreachable!("a transaction is no command"),
    }
}

/// A release of the name of `entry` that deletes nothing, to see whether the user may use this `way`. No key has its
/// token, which is longer than the one of `entry`.
pub(crate) fn trial(out: &mut Vec<u8>, entry: &Entry, way: Dialect) {
    let longer = [entry.token().as_bytes(), b"?"].concat();
    let entry = Entry::new(Vec::new(), entry.resource(), &longer);
    release(out, &entry, way);
}

/// The `SET` of `entry` with this token and ttl, if the user may run all of `commands` on the key. If both are empty
/// and there is no marker, it only asks which of the commands the user may not run.
pub(crate) fn set_if_permitted(
    out: &mut Vec<u8>,
    entry: &Entry,
    set: [&[u8]; 2],
    marker: Option<&[u8]>,
    commands: &[&'static str],
) {
    if entry.is_several() {
        return several::take_if_permitted(out, entry, set[1], marker, commands);
    }
    let (script, keys): (_, &[&[u8]]) = match marker {
        None => (&script::SET_IF_PERMITTED, &[b"1", entry.resource()]),
        Some(_) => (
            &script::CHECKED_ACQUIRE,
            &[b"3", entry.resource(), MARKER_KEY, BARRIER_KEY],
        ),
    };
    let mut words = alloc::vec![&b"EVAL"[..], script.text.as_bytes()];
    words.extend(keys);
    words.extend(set);
    words.extend(marker.map(unwrapped));
    words.extend(commands.iter().map(|command| command.as_bytes()));
    command(out, &words);
}

/// Returns the bytes of an argument in wire form.
fn unwrapped(argument: &[u8]) -> &[u8] {
    let header = argument.iter().position(|byte| *byte == b'\n');
    let bytes = header.and_then(|end| argument.get(end + 1..argument.len().checked_sub(2)?));
    bytes.unwrap_or_default()
}

/// The request to join, with these `arguments` of [`JOIN`](script::JOIN). It is rare, so it is always sent by its text.
pub(crate) fn join(out: &mut Vec<u8>, arguments: [&[u8]; 8]) {
    let mut words: Vec<&[u8]> = Vec::with_capacity(13);
    words.extend([
        b"EVAL",
        script::JOIN.text.as_bytes(),
        b"2",
        MARKER_KEY,
        BARRIER_KEY,
    ]);
    words.extend(arguments);
    command(out, &words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{COMMAND_BYTES_MAX, RESOURCE_BYTES_MAX, TOKEN_BYTES_MAX};
    use crate::node::Question;
    use crate::node::script::{self, RELEASE};
    use crate::node::trust::marker::MARKER_BYTES_MAX;
    use crate::resp::argument;
    use alloc::string::{String, ToString};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn shown_checked(write: impl Fn(&mut Vec<u8>, &Entry, Option<&[u8]>)) -> String {
        let (mut out, mut marker) = (Vec::new(), Vec::new());
        argument(&mut marker, b"1 r 5 1 1 0 c");
        let entry = Entry::new(Vec::new(), b"k", b"token");
        write(&mut out, &entry, Some(&marker));
        let out = String::from_utf8(out).expect("text");
        out.replace("\r\n", "|")
    }

    #[test]
    fn the_commands_with_a_marker_check_are_what_the_servers_read() {
        let tail = "|$1|3|$1|k|$16|shearline:marker|$17|shearline:barrier|$5|token|";
        let second = Duration::from_secs(1);
        assert_eq!(
            shown_checked(|out, entry, marker| set(out, entry, second, marker, Dialect::Sha1)),
            alloc::format!(
                "*9|$7|EVALSHA|$40|{}{tail}$4|1000|$13|1 r 5 1 1 0 c|",
                script::CHECKED_ACQUIRE.sha1
            )
        );
        assert_eq!(
            shown_checked(|out, entry, marker| Question::Extend.write(
                out,
                entry,
                second,
                marker,
                Dialect::Sha1
            )),
            alloc::format!(
                "*9|$7|EVALSHA|$40|{}{tail}$4|1000|$13|1 r 5 1 1 0 c|",
                script::CHECKED_EXTEND.sha1
            )
        );
        let text = script::CHECKED_CONFIRM.text;
        assert_eq!(
            shown_checked(|out, entry, marker| Question::Confirm.write(
                out,
                entry,
                second,
                marker,
                Dialect::Text
            )),
            alloc::format!("*8|$4|EVAL|${}|{text}{tail}$13|1 r 5 1 1 0 c|", text.len())
        );
    }

    #[test]
    fn a_trial_names_a_token_that_no_key_has() {
        let entry = Entry::new(Vec::new(), b"k", &[b't'; TOKEN_BYTES_MAX]);
        let longer = [&[b't'; TOKEN_BYTES_MAX][..], b"?"].concat();
        for (way, words) in [
            (Dialect::DelIfEq, &[&b"DELIFEQ"[..], b"k", &longer][..]),
            (Dialect::DelEx, &[b"DELEX", b"k", b"IFEQ", &longer]),
        ] {
            assert_eq!(written(|out| trial(out, &entry, way)), encoded(words));
        }
    }

    #[test]
    fn no_command_is_longer_than_its_limit() {
        let longest = Entry::new(
            Vec::new(),
            &[b'k'; RESOURCE_BYTES_MAX],
            &[b't'; TOKEN_BYTES_MAX],
        );
        let mut marker = Vec::new();
        argument(&mut marker, &[b'm'; MARKER_BYTES_MAX]);
        for marker in [None, Some(&marker[..])] {
            let mut out = Vec::new();
            Question::Extend.write(&mut out, &longest, Duration::MAX, marker, Dialect::Text);
            assert!(out.len() <= COMMAND_BYTES_MAX, "{}", out.len());
        }
    }

    /// Returns what `write` appends to bytes that are there already.
    fn written(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = b"before".to_vec();
        write(&mut out);
        out.split_off(b"before".len())
    }

    fn encoded(words: &[&[u8]]) -> Vec<u8> {
        written(|out| command(out, words))
    }

    proptest! {
        #[test]
        fn every_template_writes_what_the_general_encoder_writes(
            key in vec(any::<u8>(), 0..=RESOURCE_BYTES_MAX),
            token in vec(any::<u8>(), 0..=TOKEN_BYTES_MAX),
            ttl in prop_oneof![0..100_000_u64, any::<u64>()],
        ) {
            let entry = &Entry::new(Vec::new(), &key, &token);
            let (key, token) = (&key[..], &token[..]);
            // A fraction of a millisecond is cut off.
            let whole = Duration::from_millis(ttl) + Duration::from_micros(999);
            let digits = ttl.to_string();
            let ttl = digits.as_bytes();
            prop_assert_eq!(
                written(|out| set(out, entry, whole, None, Dialect::Text)),
                encoded(&[b"SET", key, token, b"NX", b"PX", ttl])
            );
            for (dialect, words) in [
                (Dialect::Sha1, &[b"EVALSHA", RELEASE.sha1.as_bytes(), b"1", key, token][..]),
                (Dialect::Text, &[b"EVAL", RELEASE.text.as_bytes(), b"1", key, token]),
                (Dialect::DelIfEq, &[b"DELIFEQ", key, token]),
                (Dialect::DelEx, &[b"DELEX", key, b"IFEQ", token]),
            ] {
                prop_assert_eq!(written(|out| release(out, entry, dialect)), encoded(words));
            }
            prop_assert_eq!(
                written(|out| Question::Confirm.write(out, entry, whole, None, Dialect::Text)),
                encoded(&[b"EVAL", script::CONFIRM.text.as_bytes(), b"1", key, token])
            );
            for (dialect, verb, script) in [
                (Dialect::Sha1, &b"EVALSHA"[..], script::EXTEND.sha1),
                (Dialect::Text, b"EVAL", script::EXTEND.text),
                (Dialect::DelIfEq, b"EVALSHA", script::EXTEND.sha1),
                (Dialect::DelEx, b"EVALSHA", script::EXTEND.sha1),
            ] {
                prop_assert_eq!(
                    written(|out| Question::Extend.write(out, entry, whole, None, dialect)),
                    encoded(&[verb, script.as_bytes(), b"1", key, token, ttl])
                );
            }
        }
    }
}
