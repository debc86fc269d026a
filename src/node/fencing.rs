//! Fencing tokens on one node: the commands, as bytes, and what is known of this connection.
//!
//! A script takes a fenced lock and raises a counter for each of its names. A node refuses it unless its counter floor
//! belongs to the present `run_id`: see [`script::fencing`](super::script).
//!
//! # Guarantees
//!
//! * Nothing is sent to a server that does not report its `run_id`.
//! * The first such command on a connection also asks whether the user may release the lock. Later ones are sent by
//!   their digest.
//!
//! # Not here
//!
//! The choice of the number that is proposed, and the meaning of a majority of answers.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::Unusable;
use crate::keys::{ClaimKey, OperationKey};
use crate::resource::{BARRIER_KEY, COUNTER_PREFIX, FLOOR_KEY, MARKER_KEY};
use crate::resp::{Decimal, argument, write};
use crate::time::Instant;

use super::permission::forbidden_to_lock;
use super::request::{Dialect, Request, Taking};
use super::script::{
    COUNT_COUNTERS, LOOK_AT_FLOOR, RAISE_FENCED, REPAIR_FLOOR, SET_FLOOR, Script, TAKE_FENCED,
};
use super::several::NO_MARKER;
use super::{Command, Node};

/// What is known of the script that takes a fenced lock on this connection.
#[derive(Debug)]
pub(super) struct Fencing {
    /// How long a counter lives after its last token.
    kept_for: Duration,
    /// The script has run here: the server knows it, and the user has the permissions for it.
    is_known: bool,
}

impl Fencing {
    pub(super) fn new(kept_for: Duration) -> Self {
        Self {
            kept_for,
            is_known: false,
        }
    }

    /// The connection is gone.
    pub(super) fn disconnected(&mut self) {
        self.is_known = false;
    }
}

impl Node {
    /// Sends the script that takes `entry` and raises its counters at least to `proposal`.
    ///
    /// # Errors
    ///
    /// The node runs no scripts, or does not report its `run_id`. Nothing was sent.
    #[cold]
    #[inline(never)]
    pub(super) fn take_fenced(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        command: &mut Command,
        entry: &Entry,
        (life, proposal): (Duration, u64),
    ) -> Result<(), Unusable> {
        if self.is_without_scripts() && self.ways.refusal.is_none() {
            return Err(Unusable::NeedsScripts);
        }
        let run_id = self.handshake.run_id().ok_or(Unusable::NoRunId)?;
        let by_digest = self.fencing.is_known && self.takes_digests();
        let asked: &[&str] = match by_digest {
            true => &[],
            false => self.to_lock(),
        };
        let marker = self.trust.marker();
        let (ttl, kept) = (
            Decimal::millis(life),
            Decimal::millis(self.fencing.kept_for),
        );
        // The command names the server, so it is written for this node alone, like one that checks a marker.
        let bytes = command.written(Dialect::Text, Some(b""), |out| {
            head(out, &TAKE_FENCED, by_digest, entry, marker, asked.len());
            tail(
                out,
                [ttl.as_bytes(), kept.as_bytes()],
                marker,
                proposal,
                run_id,
            );
            for command in asked {
                argument(out, command.as_bytes());
            }
        });
        let by = Taking::Fenced {
            by: match by_digest {
                true => Dialect::Sha1,
                false => Dialect::Text,
            },
        };
        self.send(now, Request::Take { claim, by }, bytes);
        Ok(())
    }

    /// Sends the script that raises the counters of `entry` to `token`, if the lock is there.
    pub(crate) fn send_raise(&mut self, now: Instant, claim: ClaimKey, entry: &Entry, token: u64) {
        let mut out = Vec::new();
        let marker = self.trust.marker();
        let run_id = self.handshake.run_id().unwrap_or_default();
        head(&mut out, &RAISE_FENCED, false, entry, marker, 0);
        let kept = Decimal::millis(self.fencing.kept_for);
        tail(&mut out, [b"", kept.as_bytes()], marker, token, run_id);
        self.send(now, Request::Raise { claim }, &out);
    }

    /// Makes the counter floor one of the present `run_id`. It becomes at least `seen`, and at least `proposal` as far
    /// as the server's clock allows. `operation` waits for the answer. Returns `false` if the `run_id` is not known.
    pub(crate) fn send_floor(
        &mut self,
        now: Instant,
        operation: OperationKey,
        [seen, proposal]: [u64; 2],
    ) -> bool {
        let Some(run_id) = self.handshake.run_id() else {
            return false; // No lock with a fencing token is asked for there.
        };
        let command = about_floor(&SET_FLOOR, run_id, &[seen, proposal]);
        let operation = Some(operation);
        self.send(now, Request::Floor { operation }, &command);
        true
    }

    /// Asks for the counter floor. A floor that is missing, or belongs to another `run_id`, is in repair from then on,
    /// under `nonce`. Returns `false` if the node cannot be asked.
    pub(crate) fn look_at_floor(
        &mut self,
        now: Instant,
        operation: OperationKey,
        nonce: u64,
    ) -> bool {
        let run_id = self
            .handshake
            .run_id()
            .filter(|_| !self.is_without_scripts());
        let Some(run_id) = run_id else {
            return false;
        };
        let command = about_floor(&LOOK_AT_FLOOR, run_id, &[nonce]);
        self.send(now, Request::LookAtFloor { operation }, &command);
        true
    }

    /// Makes the counter floor one of the present `run_id`, of at least `number`, if it is in repair under `nonce`.
    pub(crate) fn repair_floor(&mut self, now: Instant, nonce: u64, number: u64) {
        if let Some(run_id) = self.handshake.run_id() {
            let command = about_floor(&REPAIR_FLOOR, run_id, &[nonce, number]);
            self.send(now, Request::Floor { operation: None }, &command);
        }
    }

    /// Asks how many counters there are behind `cursor`, among the keys that the node scans at once.
    pub(crate) fn count_counters(&mut self, now: Instant, operation: OperationKey, cursor: u64) {
        let mut out = Vec::new();
        write::array(&mut out, 4);
        argument(&mut out, b"EVAL");
        argument(&mut out, COUNT_COUNTERS.text.as_bytes());
        argument(&mut out, b"0");
        argument(&mut out, Decimal::new(cursor).as_bytes());
        self.send(now, Request::Count { operation }, &out);
    }

    /// The script that takes a fenced lock was run on this connection.
    pub(super) fn knows_fenced_set(&mut self) {
        self.fencing.is_known = true;
        self.trust_scripts();
    }

    /// The next command has the text of that script: the server has forgotten it, or it has to check the permissions.
    pub(super) fn forgot_fenced_set(&mut self) {
        self.fencing.is_known = false;
    }
}

/// Returns the command that the user may not run, by this answer of [`TAKE_FENCED`].
pub(super) fn forbidden_to_fence(said: i64) -> Option<Unusable> {
    match said {
        -2 => Some(Unusable::Permission { command: "time" }),
        _ => forbidden_to_lock(said.checked_add(2)?),
    }
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
    let keys = 2 * entry.names().len() + 1 + guard.len();
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
    for key in guard {
        argument(out, key);
    }
    out.extend_from_slice(entry.token_argument());
}

/// Writes the ttl, the marker, a number, how long a counter is kept, and the `run_id`.
fn tail(
    out: &mut Vec<u8>,
    [ttl, kept]: [&[u8]; 2],
    marker: Option<&[u8]>,
    number: u64,
    run_id: &str,
) {
    argument(out, ttl);
    out.extend_from_slice(marker.unwrap_or(NO_MARKER));
    argument(out, Decimal::new(number).as_bytes());
    argument(out, kept);
    argument(out, run_id.as_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::resp::{Decoder, Limits};
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
                tail(&mut out, [b"10", b"86400000"], marker, 7, "r");
                assert_eq!(shown(&out), alloc::format!("{verb} {shown_as}"));
            }
        }
    }

    #[test]
    fn what_is_forbidden_is_named() {
        let commands = ["time", "get", "del", "set", "evalsha"];
        for (said, command) in (2..).map(|said: i64| -said).zip(commands) {
            let missing = Unusable::Permission { command };
            assert_eq!(forbidden_to_fence(said), Some(missing));
        }
        for said in [1, 2, -1, 0, -7, i64::MAX, i64::MIN] {
            assert_eq!(forbidden_to_fence(said), None, "{said}");
        }
    }
}
