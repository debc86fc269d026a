//! The commands about fencing tokens.
//!
//! A script takes a fenced lock, and raises one counter for each of the lock's names. The script takes nothing unless
//! the node's counter floor belongs to the current `run_id`: see [`script::fencing`](crate::node::script). All other
//! commands about a fenced lock are the same as for a lock without a fencing token.
//!
//! # Not here
//!
//! Other modules choose the proposed number, and evaluate the answers of a majority.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::{Entry, Kind};
use crate::node::request::Dialect;
use crate::node::script::{
    COUNT_COUNTERS, LIST_NAMES, LOOK_AT_FLOOR, RAISE_FENCED, RAISE_MEMBER, REPAIR_FLOOR, SET_FLOOR,
    Script, TAKE_FENCED, TAKE_SHARED_FENCED, TAKE_SLOT_FENCED,
};
use crate::resource::{COUNTER_PREFIX, FLOOR_KEY, INTENT_PREFIX};
use crate::resp::{Decimal, argument, command};

use super::shared::{TO_JOIN, passes, prefix};
use super::{Filling, permit, to_ask};

/// The variable parts of a command about counters.
#[derive(Clone, Copy, Debug)]
pub(in crate::node) struct Counters<'a> {
    /// The minimum value of the counters after the command.
    pub(in crate::node) number: u64,
    /// How long the counters live after their last use.
    pub(in crate::node) ttl: Duration,
    pub(in crate::node) run_id: &'a str,
}

/// Takes all keys of `entry` or none, and raises the counters, if the user may run all of `commands`.
pub(in crate::node) fn take(
    out: &mut Vec<u8>,
    entry: &Entry,
    filling: &Filling<'_>,
    counters: &Counters<'_>,
    commands: &[&'static str],
) {
    let Filling { life, marker, by } = *filling;
    if entry.kind() != Kind::Plain {
        return take_member(out, entry, filling, counters);
    }
    head(out, (&TAKE_FENCED, by), entry, marker, commands.len());
    tail(out, Decimal::millis(life).as_bytes(), marker, counters);
    to_ask(out, commands);
}

/// Adds a reader or takes a slot, and raises the counter. The command also checks the user's permissions.
fn take_member(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>, counters: &Counters<'_>) {
    let (life, marker) = (Decimal::millis(filling.life), filling.marker);
    let commands = TO_JOIN.len() + TO_NUMBER.len();
    match entry.kind() {
        Kind::Permit { .. } => {
            let script = (&TAKE_SLOT_FENCED, Dialect::TextOnly);
            head(out, script, entry, marker, 3 + commands);
            tail(out, life.as_bytes(), marker, counters);
            permit::slots(out, entry);
        }
        Kind::Plain | Kind::Shared => {
            let script = (&TAKE_SHARED_FENCED, Dialect::TextOnly);
            head(out, script, entry, marker, 1 + commands);
            tail(out, life.as_bytes(), marker, counters);
            argument(out, passes(entry));
        }
    }
    to_ask(out, &TO_JOIN);
    to_ask(out, &TO_NUMBER);
}

/// The command that the user must be permitted to run for a fencing token, besides those in [`TO_JOIN`].
pub(in crate::node) const TO_NUMBER: [&str; 1] = ["set"];

/// Raises the counters of `entry`, if its keys exist.
pub(in crate::node) fn raise(
    out: &mut Vec<u8>,
    entry: &Entry,
    marker: Option<&[u8]>,
    counters: &Counters<'_>,
) {
    let (script, prefix) = match entry.kind() {
        Kind::Plain => (&RAISE_FENCED, None),
        Kind::Shared | Kind::Permit { .. } => (&RAISE_MEMBER, Some(prefix(entry))),
    };
    let words = prefix.iter().len();
    head(out, (script, Dialect::Text), entry, marker, words);
    tail(out, b"", marker, counters);
    if let Some(prefix) = prefix {
        argument(out, &prefix);
    }
}

/// Binds the counter floor to this `run_id`. Raises the floor to at least `seen`. A higher `proposal` raises the floor
/// further, but only up to a limit that follows from the server's clock.
pub(in crate::node) fn set_floor(run_id: &str, [seen, proposal]: [u64; 2]) -> Vec<u8> {
    about_floor(&SET_FLOOR, run_id, [seen, proposal])
}

/// Asks for the counter floor. If the floor is missing or belongs to another `run_id`, the script starts a repair of
/// the floor under `nonce`.
pub(in crate::node) fn look_at_floor(run_id: &str, nonce: u64) -> Vec<u8> {
    about_floor(&LOOK_AT_FLOOR, run_id, [nonce])
}

/// Ends the repair of the counter floor under `nonce`: binds the floor to this `run_id`, and raises it to `number`.
pub(in crate::node) fn repair_floor(run_id: &str, nonce: u64, number: u64) -> Vec<u8> {
    about_floor(&REPAIR_FLOOR, run_id, [nonce, number])
}

/// Makes the node scan some keys from `cursor` on. Without a prefix, asks how many of these keys are counters. With
/// a prefix, asks which of the keys that begin with the prefix are locks.
pub(in crate::node) fn scan(cursor: u64, prefix: Option<&[u8]>) -> Vec<u8> {
    let (mut out, cursor) = (Vec::new(), Decimal::new(cursor));
    let script = prefix.map_or(&COUNT_COUNTERS, |_| &LIST_NAMES);
    let script = script.text.as_bytes();
    let mut words = alloc::vec![&b"EVAL"[..], script, b"0", cursor.as_bytes()];
    words.extend(prefix);
    command(&mut out, &words);
    out
}

/// Writes a script whose only key is the counter floor. The script is always sent as text, because it is rarely used.
fn about_floor<const N: usize>(script: &Script, run_id: &str, numbers: [u64; N]) -> Vec<u8> {
    let (mut out, numbers) = (Vec::new(), numbers.map(Decimal::new));
    let (script, run_id) = (script.text.as_bytes(), run_id.as_bytes());
    let mut words = alloc::vec![&b"EVAL"[..], script, b"1", FLOOR_KEY, run_id];
    words.extend(numbers.iter().map(Decimal::as_bytes));
    command(&mut out, &words);
    out
}

/// Writes the command up to the token. The length in the array header includes the words of [`tail`] and `more` other
/// words.
fn head(
    out: &mut Vec<u8>,
    script: (&Script, Dialect),
    entry: &Entry,
    marker: Option<&[u8]>,
    more: usize,
) {
    let counters = entry.names().map(|name| [COUNTER_PREFIX, name]);
    let intent = [INTENT_PREFIX, entry.resource()];
    let intent = Some(intent).filter(|_| entry.kind() == Kind::Shared);
    let keys = counters.chain([[FLOOR_KEY, b""]]).chain(intent);
    super::head(out, script, entry, keys, marker, 5 + more);
}

/// Writes the ttl, the marker, a number, the life of a counter, and the `run_id`.
fn tail(out: &mut Vec<u8>, ttl: &[u8], marker: Option<&[u8]>, counters: &Counters<'_>) {
    super::tail(out, ttl, marker);
    argument(out, Decimal::new(counters.number).as_bytes());
    argument(out, Decimal::millis(counters.ttl).as_bytes());
    argument(out, counters.run_id.as_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::resp::{Decoder, Limits};
    use crate::time::Instant;
    use alloc::string::{String, ToString};

    /// Returns a command without the text of its script.
    pub(in crate::node) fn shown(out: &[u8]) -> String {
        let mut decoder = Decoder::new(Limits::default());
        let frame = decoder.decode(out).expect("RESP").expect("whole");
        assert_eq!(frame.len, out.len());
        let words = frame.value.as_items().expect("a command").iter();
        let words = words.map(|word| word.as_bytes().expect("a bulk").escape_ascii().to_string());
        let mut words: Vec<String> = words.collect();
        words.remove(1);
        words.join(" ")
    }

    #[test]
    fn the_commands_are_what_the_servers_read() {
        let one = Entry::new(Vec::new(), b"a\n", b"token");
        let two = Entry::of_several(Vec::new(), [&b"a"[..], b"b"].into_iter(), b"token");
        let mut marker = Vec::new();
        argument(&mut marker, b"m");
        for (entry, marker, shown_as) in [
            (
                &one,
                None,
                r"3 a\n shearline:fence:a\n shearline:floor token 10  7 86400000 r",
            ),
            (
                &two,
                Some(&marker[..]),
                "7 a b shearline:fence:a shearline:fence:b shearline:floor shearline:marker \
                 shearline:barrier token 10 m 7 86400000 r",
            ),
        ] {
            for (by, verb) in [(Dialect::Text, "EVAL"), (Dialect::Sha1, "EVALSHA")] {
                let mut out = Vec::new();
                head(&mut out, (&TAKE_FENCED, by), entry, marker, 0);
                let counters = Counters {
                    number: 7,
                    ttl: Duration::from_secs(86_400),
                    run_id: "r",
                };
                tail(&mut out, b"10", marker, &counters);
                assert_eq!(shown(&out), alloc::format!("{verb} {shown_as}"));
            }
        }
    }

    #[test]
    fn so_are_those_about_members() {
        let reader = Entry::shared(Vec::new(), b"a", b"token", true);
        let mut holder = Entry::permit(Vec::new(), b"a", b"token", [4, 2], true);
        let mut marker = Vec::new();
        argument(&mut marker, b"m");
        let counters = Counters {
            number: 7,
            ttl: Duration::from_secs(86_400),
            run_id: "r",
        };
        let taken = |entry: &Entry, marker| {
            let (life, by) = (Duration::from_secs(1), Dialect::TextOnly);
            let (mut out, filling) = (Vec::new(), Filling { life, marker, by });
            take(&mut out, entry, &filling, &counters, &["get"]);
            shown(&out)
        };
        let raised = |entry: &Entry, marker| {
            let mut out = Vec::new();
            raise(&mut out, entry, marker, &counters);
            shown(&out)
        };
        let held = Entry::shared(Vec::new(), b"a", b"token", true);
        held.set_end(Instant::MAX, Duration::from_secs(1));
        let marker = Some(&marker[..]);
        let whole = |text: &str| {
            let text = text.replace("KEYS", "a shearline:fence:a shearline:floor");
            let text = text.replace("GUARD", "shearline:marker shearline:barrier");
            text.replace("INTENT", "shearline:intent:a")
                .replace("ALL", "time zrange zrem zadd pexpireat get zscore set")
        };
        for (command, expected) in [
            (
                taken(&reader, None),
                "EVAL 4 KEYS INTENT token 1000  7 86400000 r  ALL",
            ),
            (
                taken(&held, marker),
                "EVAL 6 KEYS INTENT GUARD token 1000 m 7 86400000 r 1 ALL",
            ),
            (
                raised(&reader, None),
                "EVAL 4 KEYS INTENT token   7 86400000 r r/",
            ),
            (
                taken(&holder, None),
                "EVAL 3 KEYS token 1000  7 86400000 r 4 2 4 ALL",
            ),
        ] {
            assert_eq!(command, whole(expected));
        }
        holder.set_slot(3);
        let expected = whole("EVAL 5 KEYS GUARD token 1000 m 7 86400000 r 4 3 1 ALL");
        assert_eq!(taken(&holder, marker), expected);
        let expected = whole("EVAL 5 KEYS GUARD token  m 7 86400000 r 4/3/");
        assert_eq!(raised(&holder, marker), expected);
    }
}
