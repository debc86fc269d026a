//! The commands about a lock on one name.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::node::request::Dialect;
use crate::node::script;
use crate::resource::{BARRIER_KEY, MARKER_KEY, broken};
use crate::resp::Word::{Encoded, Hole, Text};
use crate::resp::{Decimal, Template, argument, command};

use super::{Filling, Form, Recipe};

pub(super) static RECIPE: Recipe = Recipe {
    take,
    release,
    extend,
    confirm,
    inspect,
    overwrite,
    ask: |out, entry, commands| take_if_permitted(out, entry, None, None, commands),
    move_slot: |_, _, _| unreachable!("it has no slots"),
    form: Form::Taught,
};

/// Commands that run a script. The keys and the arguments come last in each command.
struct Run<const HOLES: usize, const BYTES: usize> {
    by_sha1: Template<HOLES, 192>,
    by_text: Template<HOLES, BYTES>,
}

impl<const HOLES: usize, const BYTES: usize> Run<HOLES, BYTES> {
    // This function is always inlined, like `Template::write`.
    #[inline(always)]
    fn write(&self, out: &mut Vec<u8>, fillings: [&[u8]; HOLES], dialect: Dialect) {
        match dialect {
            Dialect::Text => self.by_text.write(out, fillings),
            Dialect::Sha1
            | Dialect::DelIfEq
            | Dialect::DelEx
            | Dialect::SetIfEq
            | Dialect::Watch
            | Dialect::TextOnly => self.by_sha1.write(out, fillings),
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

/// Like `run!`, but for a script with a marker check. The marker is the last argument.
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

static EXTEND: Run<2, 512> = run!(script::EXTEND, Text(b"1"), Encoded(2), Hole);
static CHECKED_EXTEND: Run<4, 576> = run_checked!(script::CHECKED_EXTEND, Encoded(1), Hole);

static CONFIRM: Run<1, 256> = run!(script::CONFIRM, Text(b"1"), Encoded(2));
static CHECKED_CONFIRM: Run<3, 448> = run_checked!(script::CHECKED_CONFIRM, Encoded(1));

static OVERWRITE: Run<2, 448> = run!(script::OVERWRITE, Text(b"1"), Encoded(2), Encoded(1));

static INSPECT: Run<1, 960> = run!(script::INSPECT, Text(b"1"), Encoded(1));
static CHECKED_INSPECT: Run<2, 1024> = run_checked!(script::INSPECT);

/// Writes `SET NX PX`, or a script that does the same and checks the marker.
fn take(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    let ttl = Decimal::millis(filling.life);
    let ttl = ttl.as_bytes();
    match filling.marker {
        None => PLAIN_SET.write(out, [entry.arguments(), ttl]),
        Some(marker) => {
            let (key, token) = (entry.key_argument(), entry.token_argument());
            CHECKED_SET.write(out, [key, token, ttl, marker], filling.by);
        }
    }
}

fn release(out: &mut Vec<u8>, entry: &Entry, by: Dialect) {
    let arguments = entry.arguments();
    match by {
        Dialect::Sha1 | Dialect::Text => RUN_RELEASE.write(out, [arguments], by),
        Dialect::DelIfEq => DELIFEQ.write(out, [arguments]),
        Dialect::DelEx => DELEX.write(out, [entry.key_argument(), entry.token_argument()]),
        Dialect::SetIfEq => SET_IF_EQ.write(out, [arguments, entry.token_argument()]),
        Dialect::Watch | Dialect::TextOnly => unreachable!("{by:?} is not for one name"),
    }
}

fn extend(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    let ttl = Decimal::millis(filling.life);
    let ttl = ttl.as_bytes();
    let (key, token) = (entry.key_argument(), entry.token_argument());
    match filling.marker {
        None => EXTEND.write(out, [entry.arguments(), ttl], filling.by),
        Some(marker) => CHECKED_EXTEND.write(out, [key, token, ttl, marker], filling.by),
    }
}

fn confirm(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    let (key, token) = (entry.key_argument(), entry.token_argument());
    match filling.marker {
        None => CONFIRM.write(out, [entry.arguments()], filling.by),
        Some(marker) => CHECKED_CONFIRM.write(out, [key, token, marker], filling.by),
    }
}

fn inspect(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    let key = entry.key_argument();
    match filling.marker {
        None => INSPECT.write(out, [key], filling.by),
        Some(marker) => CHECKED_INSPECT.write(out, [key, marker], filling.by),
    }
}

/// Writes the command without a marker check, because the node must change the key even if its answers do not count.
fn overwrite(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    let mut other = Vec::new();
    argument(&mut other, &broken(entry.token()));
    OVERWRITE.write(out, [entry.arguments(), &other], filling.by);
}

/// Writes a release that deletes nothing, to check whether the user may use this `way` on the name of `entry`. The
/// token of the release is longer than the token of `entry`, so no key contains it.
pub(in crate::node) fn trial(out: &mut Vec<u8>, entry: &Entry, way: Dialect) {
    let longer = [entry.token().as_bytes(), b"?"].concat();
    let entry = Entry::new(Vec::new(), entry.resource(), &longer);
    release(out, &entry, way);
}

/// Takes the key for `life` if the user may run all of `commands` on it. If `life` and `marker` are `None`, the command
/// only asks which of `commands` the user may not run.
pub(in crate::node) fn take_if_permitted(
    out: &mut Vec<u8>,
    entry: &Entry,
    life: Option<Duration>,
    marker: Option<&[u8]>,
    commands: &[&'static str],
) {
    let (script, keys): (_, &[&[u8]]) = match marker {
        None => (&script::SET_IF_PERMITTED, &[b"1", entry.resource()]),
        Some(_) => (
            &script::CHECKED_ACQUIRE,
            &[b"3", entry.resource(), MARKER_KEY, BARRIER_KEY],
        ),
    };
    let ttl = life.map(Decimal::millis);
    let mut words = alloc::vec![&b"EVAL"[..], script.text.as_bytes()];
    words.extend(keys);
    words.push(life.map_or(&b""[..], |_| entry.token().as_bytes()));
    words.push(ttl.as_ref().map_or(&b""[..], Decimal::as_bytes));
    words.extend(marker.map(unwrapped));
    words.extend(commands.iter().map(|command| command.as_bytes()));
    command(out, &words);
}

/// Returns the content of an argument that is in wire form.
fn unwrapped(argument: &[u8]) -> &[u8] {
    let header = argument.iter().position(|byte| *byte == b'\n');
    let bytes = header.and_then(|end| argument.get(end + 1..argument.len().checked_sub(2)?));
    bytes.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{RESOURCE_BYTES_MAX, TOKEN_BYTES_MAX};
    use crate::node::script::{self, RELEASE};
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

    const fn filling(life: Duration, marker: Option<&[u8]>, by: Dialect) -> Filling<'_> {
        Filling { life, marker, by }
    }

    #[test]
    fn the_commands_with_a_marker_check_are_what_the_servers_read() {
        let tail = "|$1|3|$1|k|$16|shearline:marker|$17|shearline:barrier|$5|token|";
        let second = Duration::from_secs(1);
        assert_eq!(
            shown_checked(|out, entry, marker| take(
                out,
                entry,
                &filling(second, marker, Dialect::Sha1)
            )),
            alloc::format!(
                "*9|$7|EVALSHA|$40|{}{tail}$4|1000|$13|1 r 5 1 1 0 c|",
                script::CHECKED_ACQUIRE.sha1
            )
        );
        assert_eq!(
            shown_checked(|out, entry, marker| extend(
                out,
                entry,
                &filling(second, marker, Dialect::Sha1)
            )),
            alloc::format!(
                "*9|$7|EVALSHA|$40|{}{tail}$4|1000|$13|1 r 5 1 1 0 c|",
                script::CHECKED_EXTEND.sha1
            )
        );
        let text = script::CHECKED_CONFIRM.text;
        assert_eq!(
            shown_checked(|out, entry, marker| confirm(
                out,
                entry,
                &filling(second, marker, Dialect::Text)
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

    /// Returns the bytes that `write` appends to a buffer that is not empty.
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
            // The ttl in the command is a whole number of milliseconds, rounded down.
            let whole = Duration::from_millis(ttl) + Duration::from_micros(999);
            let digits = ttl.to_string();
            let ttl = digits.as_bytes();
            prop_assert_eq!(
                written(|out| take(out, entry, &filling(whole, None, Dialect::Text))),
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
                written(|out| confirm(out, entry, &filling(whole, None, Dialect::Text))),
                encoded(&[b"EVAL", script::CONFIRM.text.as_bytes(), b"1", key, token])
            );
            for (dialect, verb, script) in [
                (Dialect::Sha1, &b"EVALSHA"[..], script::EXTEND.sha1),
                (Dialect::Text, b"EVAL", script::EXTEND.text),
                (Dialect::DelIfEq, b"EVALSHA", script::EXTEND.sha1),
                (Dialect::DelEx, b"EVALSHA", script::EXTEND.sha1),
            ] {
                prop_assert_eq!(
                    written(|out| extend(out, entry, &filling(whole, None, dialect))),
                    encoded(&[verb, script.as_bytes(), b"1", key, token, ttl])
                );
            }
        }
    }
}
