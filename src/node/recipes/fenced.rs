//! The commands about fencing tokens.
//!
//! A script takes a fenced lock and raises a counter for each of its names. A node refuses it unless its counter floor
//! belongs to the present `run_id`: see [`script::fencing`](crate::node::script). All other commands about a fenced
//! lock are those of a lock without a token.
//!
//! # Not here
//!
//! The choice of the number that is proposed, and the meaning of a majority of answers.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::{Entry, Kind};
use crate::node::request::Dialect;
use crate::node::script::{
    COUNT_COUNTERS, LOOK_AT_FLOOR, RAISE_FENCED, RAISE_MEMBER, REPAIR_FLOOR, SET_FLOOR, Script,
    TAKE_FENCED, TAKE_SHARED_FENCED, TAKE_SLOT_FENCED,
};
use crate::resource::{BARRIER_KEY, COUNTER_PREFIX, FLOOR_KEY, MARKER_KEY};
use crate::resp::{Decimal, argument, write};

use super::several::NO_MARKER;
use super::shared::{self, TO_JOIN, passes, prefix};
use super::{Filling, permit};

/// What is filled into a command about counters.
#[derive(Clone, Copy, Debug)]
pub(in crate::node) struct Counters<'a> {
    /// The number to which they are raised at least.
    pub(in crate::node) number: u64,
    /// How long they live after their last token.
    pub(in crate::node) ttl: Duration,
    pub(in crate::node) run_id: &'a str,
}

/// Takes the keys of `entry`, or none of them, and raises the counters, if the user may run all of `commands`.
pub(in crate::node) fn take(
    out: &mut Vec<u8>,
    entry: &Entry,
    filling: &Filling<'_>,
    counters: &Counters<'_>,
    commands: &[&'static str],
) {
    let marker = filling.marker;
    if entry.kind() != Kind::Plain {
        return take_member(out, entry, filling, counters);
    }
    let by_digest = filling.by == Dialect::Sha1;
    head(out, &TAKE_FENCED, by_digest, entry, marker, commands.len());
    let ttl = Decimal::millis(filling.life);
    tail(out, ttl.as_bytes(), marker, counters);
    for command in commands {
        argument(out, command.as_bytes());
    }
}

/// Adds a reader or takes a slot, and raises the counter. Each such command also asks for the permissions.
fn take_member(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>, counters: &Counters<'_>) {
    let (life, marker) = (Decimal::millis(filling.life), filling.marker);
    let commands = TO_JOIN.len() + TO_NUMBER.len();
    match entry.kind() {
        Kind::Permit { .. } => {
            head(out, &TAKE_SLOT_FENCED, false, entry, marker, 3 + commands);
            tail(out, life.as_bytes(), marker, counters);
            permit::slots(out, entry);
        }
        Kind::Plain | Kind::Shared => {
            head(out, &TAKE_SHARED_FENCED, false, entry, marker, 1 + commands);
            tail(out, life.as_bytes(), marker, counters);
            argument(out, passes(entry));
        }
    }
    for command in TO_JOIN.iter().chain(&TO_NUMBER) {
        argument(out, command.as_bytes());
    }
}

/// The command that a number needs, besides [`TO_JOIN`].
pub(in crate::node) const TO_NUMBER: [&str; 1] = ["set"];

/// Raises the counters of `entry`, if the keys are there.
pub(in crate::node) fn raise(
    out: &mut Vec<u8>,
    entry: &Entry,
    marker: Option<&[u8]>,
    counters: &Counters<'_>,
) {
    if entry.kind() == Kind::Plain {
        head(out, &RAISE_FENCED, false, entry, marker, 0);
        return tail(out, b"", marker, counters);
    }
    head(out, &RAISE_MEMBER, false, entry, marker, 1);
    tail(out, b"", marker, counters);
    argument(out, &prefix(entry));
}

/// Binds the counter floor to this `run_id`. Raises it to `seen`, and to `proposal` as far as the server's clock
/// allows.
pub(in crate::node) fn set_floor(run_id: &str, [seen, proposal]: [u64; 2]) -> Vec<u8> {
    about_floor(&SET_FLOOR, run_id, &[seen, proposal])
}

/// Asks for the counter floor. A floor that is missing, or belongs to another `run_id`, is in repair from then on,
/// under `nonce`.
pub(in crate::node) fn look_at_floor(run_id: &str, nonce: u64) -> Vec<u8> {
    about_floor(&LOOK_AT_FLOOR, run_id, &[nonce])
}

/// If the counter floor is in repair under `nonce`, binds it to this `run_id` and raises it to `number`.
pub(in crate::node) fn repair_floor(run_id: &str, nonce: u64, number: u64) -> Vec<u8> {
    about_floor(&REPAIR_FLOOR, run_id, &[nonce, number])
}

/// Asks how many counters there are behind `cursor`, among the keys that the node scans at once.
pub(in crate::node) fn count(cursor: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write::array(&mut out, 4);
    let cursor = Decimal::new(cursor);
    for word in [
        b"EVAL",
        COUNT_COUNTERS.text.as_bytes(),
        b"0",
        cursor.as_bytes(),
    ] {
        argument(&mut out, word);
    }
    out
}

/// Writes a script whose only key is the counter floor, by its text because it is rare.
fn about_floor(script: &Script, run_id: &str, numbers: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    write::array(&mut out, 5 + numbers.len());
    for word in [
        b"EVAL",
        script.text.as_bytes(),
        b"1",
        FLOOR_KEY,
        run_id.as_bytes(),
    ] {
        argument(&mut out, word);
    }
    for number in numbers {
        argument(&mut out, Decimal::new(*number).as_bytes());
    }
    out
}

/// Writes the command up to the token, with room for `more` arguments beside those of [`tail`].
fn head(
    out: &mut Vec<u8>,
    script: &Script,
    by_digest: bool,
    entry: &Entry,
    marker: Option<&[u8]>,
    more: usize,
) {
    let guard: &[&[u8]] = match marker {
        None => &[],
        Some(_) => &[MARKER_KEY, BARRIER_KEY],
    };
    let intent = Some(entry.resource()).filter(|_| entry.kind() == Kind::Shared);
    let keys = 2 * entry.names().len() + 1 + intent.iter().len() + guard.len();
    write::array(out, 3 + keys + 6 + more);
    let (verb, script) = match by_digest {
        true => (&b"EVALSHA"[..], script.sha1),
        false => (&b"EVAL"[..], script.text),
    };
    argument(out, verb);
    argument(out, script.as_bytes());
    argument(out, Decimal::new(keys as u64).as_bytes());
    out.extend_from_slice(entry.key_arguments());
    for name in entry.names() {
        let len = COUNTER_PREFIX.len() + name.len();
        for part in [
            b"$",
            Decimal::new(len as u64).as_bytes(),
            b"\r\n",
            COUNTER_PREFIX,
            name,
            b"\r\n",
        ] {
            out.extend_from_slice(part);
        }
    }
    argument(out, FLOOR_KEY);
    if let Some(resource) = intent {
        shared::intent(out, resource);
    }
    for key in guard {
        argument(out, key);
    }
    out.extend_from_slice(entry.token_argument());
}

/// Writes the ttl, the marker, a number, how long a counter is kept, and the `run_id`.
fn tail(out: &mut Vec<u8>, ttl: &[u8], marker: Option<&[u8]>, counters: &Counters<'_>) {
    argument(out, ttl);
    out.extend_from_slice(marker.unwrap_or(NO_MARKER));
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

    /// A command without its text.
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
            for (by_digest, verb) in [(false, "EVAL"), (true, "EVALSHA")] {
                let mut out = Vec::new();
                head(&mut out, &TAKE_FENCED, by_digest, entry, marker, 0);
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
        let commands = "time zrange zrem zadd pexpireat get zscore set";
        let held = Entry::shared(Vec::new(), b"a", b"token", true);
        held.set_end(Instant::MAX, Duration::from_secs(1));
        let keys = "a shearline:fence:a shearline:floor";
        let guard = "shearline:marker shearline:barrier";
        assert_eq!(
            taken(&reader, None),
            alloc::format!("EVAL 4 {keys} shearline:intent:a token 1000  7 86400000 r  {commands}")
        );
        assert_eq!(
            taken(&held, Some(&marker[..])),
            alloc::format!(
                "EVAL 6 {keys} shearline:intent:a {guard} token 1000 m 7 86400000 r 1 {commands}"
            )
        );
        assert_eq!(
            raised(&reader, None),
            alloc::format!("EVAL 4 {keys} shearline:intent:a token   7 86400000 r r/")
        );
        assert_eq!(
            taken(&holder, None),
            alloc::format!("EVAL 3 {keys} token 1000  7 86400000 r 4 2 4 {commands}")
        );
        holder.set_slot(3);
        assert_eq!(
            taken(&holder, Some(&marker)),
            alloc::format!("EVAL 5 {keys} {guard} token 1000 m 7 86400000 r 4 3 1 {commands}")
        );
        assert_eq!(
            raised(&holder, Some(&marker)),
            alloc::format!("EVAL 5 {keys} {guard} token  m 7 86400000 r 4/3/")
        );
    }
}
