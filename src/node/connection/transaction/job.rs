//! A job is one piece of work in a transaction: its reads, its writes, and its answer.
//!
//! A script for the same work would give the same answer, so the layers above need not know whether a script or a
//! transaction was used. The work may concern several names. Each name is represented by one bit.

use core::time::Duration;

use crate::entry::Entry;
use crate::error::{NodeOutcome, ServerError};
use crate::limits::{RESOURCES_MAX, TOKEN_BYTES_MAX};
use crate::node::refusal::{Forbidden, Refusal};
use crate::node::reply::{FOREVER, Reply, inspected, kept_for};
use crate::node::request::Request;
use crate::resource::{OwnedToken, broken};
use crate::resp::Value;

/// What a job does with the keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Work {
    /// Take the keys for at least this ttl, if no key belongs to another client and the user may delete all keys.
    Take(Duration),
    /// Delete the keys that contain the token.
    Release,
    /// Raise the ttl of the keys to at least `life`, if all keys contain the token.
    Extend {
        /// The new ttl.
        life: Duration,
        /// Whether the node must also report the next change to each key.
        watched: bool,
    },
    /// Return how much longer the keys live, if all keys contain the token.
    Confirm,
    /// Return the content of the key, and how much longer the key lives.
    Inspect {
        /// Whether the node must also report the next change to the key.
        watched: bool,
    },
    /// If the key contains the holder's token, replace it with the token that marks a broken lock.
    Overwrite,
    /// Only check whether the user may do all of this work.
    Probe,
}

impl Work {
    /// Returns `true` if the work reads before it writes, so its keys must not change between the read and the write.
    pub(super) const fn watches(self) -> bool {
        !matches!(self, Self::Confirm | Self::Inspect { .. })
    }

    /// Returns the name of the work, for the simulator.
    #[cfg(feature = "internals")]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Take(_) => "take",
            Self::Release => "release",
            Self::Extend { .. } => "extend",
            Self::Confirm => "confirm",
            Self::Inspect { .. } => "inspect",
            Self::Overwrite => "overwrite",
            Self::Probe => "probe",
        }
    }

    /// Returns the minimum ttl of the keys after the work, if the work changes the ttl. This method is for the
    /// simulator.
    #[cfg(feature = "internals")]
    pub(crate) const fn life(self) -> Option<Duration> {
        if let Self::Take(life) | Self::Extend { life, .. } = self {
            return Some(life);
        }
        None
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) entry: Entry,
    pub(super) work: Work,
    /// Whether the work was withdrawn after it began. Withdrawn work is not repeated after its transaction is aborted.
    pub(super) withdrawn: bool,
    /// Whether some of the keys may have been taken.
    pub(super) may_be_done: bool,
    /// Whether the work was already repeated because some of its keys had disappeared between the read and the write.
    pub(super) repeated: bool,
    /// Whether one `MSETEX` takes all keys without reading them first.
    at_once: bool,
    /// Whether the keys are read first, because the node has refused `MSETEX`, or `MSETEX` has found some of the keys.
    reads_first: bool,
    seen: Seen,
    /// The refusal, if the work was refused.
    error: Option<Refusal>,
    /// The token that an inspection has found.
    token: Option<OwnedToken>,
}

/// What is known about the keys, with one bit for each key.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ours: u64,
    missing: u64,
    foreign: u64,
    /// The keys that expire too early.
    short: u64,
    /// The keys that were written to.
    done: u64,
    /// The remaining milliseconds of the key that expires first, plus one, or zero if they were not read.
    above: i64,
}

const _: () = assert!(RESOURCES_MAX <= 64);

/// One command about one key, between `MULTI` and `EXEC`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// `SET key token NX PX ttl`.
    Set(Duration),
    /// `MSETEX` with `NX PX ttl`, which sets all keys or none.
    SetAll(Duration),
    /// A `PEXPIRE` with an invalid argument. The transaction fails at this command if the user is not permitted to
    /// write to the key.
    TryWrite,
    /// `PEXPIRE key -1`.
    Delete,
    /// `PEXPIRE key ttl`.
    Raise(Duration),
    /// `GET key`.
    Get,
    /// `PTTL key`.
    Left,
    /// `SET key token XX KEEPTTL`, with the token that marks a broken lock.
    Overwrite,
}

impl Job {
    pub(super) fn new(request: Request, entry: Entry, work: Work) -> Self {
        Self {
            request,
            entry,
            work,
            withdrawn: false,
            may_be_done: false,
            repeated: false,
            at_once: false,
            reads_first: false,
            seen: Seen::default(),
            error: None,
            token: None,
        }
    }

    /// Begins the work. One `MSETEX` takes the keys if it is `known` to be permitted and the keys need not be read
    /// first.
    pub(super) fn begin(&mut self, known: bool) {
        self.at_once = known && self.takes() && !self.reads_first;
    }

    /// Returns `true` if the keys are watched and read before they are written.
    pub(super) fn is_to_read(&self) -> bool {
        self.work.watches() && !self.at_once
    }

    /// Makes the work read the keys first from now on, after the node has refused an `MSETEX` that did nothing.
    pub(super) fn read_first(&mut self) {
        self.reads_first = true;
    }

    /// Returns `true` if the next try does not use `MSETEX`, because the node refused it.
    pub(super) fn is_to_change(&self) -> bool {
        self.at_once && self.reads_first
    }

    /// Forgets the answers to the reads, so that the keys are read again.
    pub(super) fn again(&mut self) {
        self.seen = Seen::default();
    }

    /// Forgets the answers and the refusal, so that the work can be tried again in a separate batch.
    pub(super) fn alone(&mut self) {
        self.again();
        self.error = None;
    }

    /// Records a refusal. Only the first refusal counts.
    pub(super) fn refused(&mut self, refusal: Refusal) {
        self.error.get_or_insert(refusal);
    }

    pub(super) fn is_refused(&self) -> bool {
        self.error.is_some()
    }

    /// Returns a number that distinguishes two operations or claims that have asked for the same work. This method is
    /// for the simulator.
    #[cfg(feature = "internals")]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others ask for nothing that is told apart"
    )]
    pub(super) fn asker(&self) -> u64 {
        match self.request {
            Request::Question { operation, .. } => operation.0.to_bits(),
            Request::Take { claim, .. } | Request::Release { claim, .. } => claim.0.to_bits(),
            _ => 0,
        }
    }

    /// Returns `true` if the node must report the next change to each key.
    pub(super) fn is_told(&self) -> bool {
        matches!(
            self.work,
            Work::Inspect { watched: true } | Work::Extend { watched: true, .. }
        )
    }

    /// Returns `true` if the work takes free keys.
    pub(super) fn takes(&self) -> bool {
        matches!(self.work, Work::Take(_))
    }

    /// Returns `true` if the work was withdrawn before it took anything, so that its answer is not needed.
    pub(super) fn is_untaken(&self) -> bool {
        self.withdrawn && self.takes() && !self.may_be_done
    }

    /// Returns `true` if either job would change keys that the other job has read in the same batch.
    pub(super) fn disturbs(&self, other: &Self) -> bool {
        let changes = |job: &Self| job.takes() || job.work == Work::Overwrite;
        (changes(self) || changes(other)) && self.entry.meets(&other.entry)
    }

    /// Returns `true` if both jobs extend the same lock. Each extension decides by its own reads, so the shorter
    /// extension could undo part of the longer one.
    pub(super) fn extends_too(&self, other: &Self) -> bool {
        let both = matches!(
            (self.work, other.work),
            (Work::Extend { .. }, Work::Extend { .. })
        );
        both && self.entry.token() == other.entry.token()
    }

    // ----- reads ----------------------------------------------------------------------------

    /// Handles `value`, which is the content of the key with this number.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what is no text of the key is a refusal"
    )]
    pub(super) fn read(&mut self, number: u8, value: Value<'_>) {
        let bit = 1 << number;
        match value {
            Value::Null => self.seen.missing |= bit,
            Value::Bulk(text) if self.inspects() => {
                self.seen.ours |= bit;
                let text = &text[..text.len().min(TOKEN_BYTES_MAX + 1)];
                self.token = Some(OwnedToken::new(text));
            }
            Value::Bulk(text) if text == self.entry.token().as_bytes() => self.seen.ours |= bit,
            Value::Bulk(text)
                if self.work == Work::Overwrite && text == broken(self.entry.token()) =>
            {
                self.seen.ours |= bit;
            }
            Value::Bulk(_) => self.seen.foreign |= bit,
            _ if !self.inspects() && is_of("WRONGTYPE", value) => self.seen.foreign |= bit,
            _ => self.refused(Refusal::of(value)),
        }
    }

    /// Returns `true` if the work is an inspection. An inspection returns the token, whichever client it belongs to. If
    /// the key has another type, an inspection reports the server's error.
    fn inspects(&self) -> bool {
        matches!(self.work, Work::Inspect { .. })
    }

    /// Handles `value`, the `PTTL` reply for the key with this number.
    pub(super) fn left(&mut self, number: u8, value: Value<'_>) {
        let Some(left) = value.as_integer() else {
            return self.refused(Refusal::of(value));
        };
        let bit = 1 << number;
        match left {
            // Skips a key that has no expiry. The `SET` uses `KEEPTTL`, so the new token would never expire either.
            -1 if self.work == Work::Overwrite => {
                self.seen.ours &= !bit;
                self.seen.foreign |= bit;
            }
            -1 => self.ends(FOREVER),
            ..=-2 => {
                self.seen.ours &= !bit;
                self.seen.missing |= bit;
            }
            left => {
                self.ends(left);
                if let Work::Extend { life, .. } | Work::Take(life) = self.work
                    && i128::from(left) < life.as_millis() as i128
                {
                    self.seen.short |= bit;
                }
            }
        }
    }

    fn ends(&mut self, left: i64) {
        let above = left.saturating_add(1);
        self.seen.above = match self.seen.above {
            0 => above,
            known => known.min(above),
        };
    }

    /// Handles the answer to a write with an invalid argument. An error about the argument shows that the user may
    /// write to the key.
    pub(super) fn may_write(&mut self, value: Value<'_>) {
        if !is_of("ERR", value) {
            self.refused(Refusal::of(value));
        }
    }

    // ----- writes ---------------------------------------------------------------------------

    /// Returns `true` if the work writes nothing, because the reads have already given the answer or the node has
    /// refused the work.
    ///
    /// A release also writes to a key that was missing, because the node may run a delayed `SET` after the read. The
    /// release's write runs after the delayed `SET`.
    pub(super) fn is_answered(&self) -> bool {
        let Seen {
            missing, foreign, ..
        } = self.seen;
        self.is_refused()
            || match self.work {
                Work::Take(_) => foreign != 0,
                Work::Release => self.to_delete() == 0,
                Work::Extend { .. } | Work::Overwrite => (missing | foreign) != 0,
                Work::Probe => true,
                Work::Confirm | Work::Inspect { .. } => false,
            }
    }

    fn to_delete(&self) -> u64 {
        self.seen.ours | self.seen.missing
    }

    /// Passes the commands of the work to `write`, each with the number of its key.
    pub(super) fn steps(&self, mut write: impl FnMut(u8, Step)) {
        let numbers = 0..self.entry.names().len() as u8;
        if let (true, Work::Take(life)) = (self.at_once, self.work) {
            numbers
                .clone()
                .for_each(|number| write(number, Step::TryWrite));
            write(0, Step::SetAll(life));
            numbers.for_each(|number| write(number, Step::Get)); // These commands show whose the keys are.
            return;
        }
        for number in numbers {
            let bit = 1 << number;
            match self.work {
                Work::Take(life) if self.seen.missing & bit != 0 => {
                    write(number, Step::Set(life));
                }
                Work::Release if self.to_delete() & bit != 0 => write(number, Step::Delete),
                Work::Extend { life, watched } if self.seen.short & bit != 0 => {
                    write(number, Step::Raise(life));
                    if watched {
                        write(number, Step::Left); // This command registers the key again.
                    }
                }
                Work::Take(life) if self.seen.short & bit != 0 => write(number, Step::Raise(life)),
                // The answer to this command shows that the key has not changed since it was read.
                Work::Extend { .. } | Work::Take(_) => write(number, Step::Left),
                Work::Confirm | Work::Inspect { .. } => {
                    write(number, Step::Get);
                    write(number, Step::Left);
                }
                Work::Overwrite => write(number, Step::Overwrite),
                Work::Release | Work::Probe => {}
            }
        }
    }

    /// Handles `value`, which is the answer to `step` for the key with this number.
    pub(super) fn wrote(&mut self, number: u8, step: Step, value: Value<'_>) {
        // An `MSETEX` takes either all keys or none, and the other steps take nothing.
        let took = matches!(step, Step::SetAll(_)) && value.as_integer() != Some(0);
        self.may_be_done |= took || !self.at_once;
        match step {
            Step::Get => self.read(number, value),
            Step::Left => self.left(number, value),
            Step::TryWrite => self.may_write(value),
            Step::SetAll(_) => match value.as_integer() {
                Some(1) => self.seen.done = self.all(),
                _ => self.reads_first = true,
            },
            Step::Set(_) | Step::Overwrite => self.was_set(number, value),
            Step::Delete | Step::Raise(_) => match value.as_integer() {
                Some(1) => self.seen.done |= 1 << number,
                Some(_) => {
                    self.seen.ours &= !(1 << number);
                    self.seen.missing |= 1 << number;
                }
                None => self.refused(Refusal::of(value)),
            },
        }
    }

    /// Handles the answer to a `SET`. A nil means that the `SET` did nothing.
    fn was_set(&mut self, number: u8, value: Value<'_>) {
        if matches!(value, Value::Simple(b"OK")) {
            self.seen.done |= 1 << number;
        } else if !matches!(value, Value::Null) {
            self.refused(Refusal::of(value));
        }
    }

    /// Returns `true` if the work must be repeated. Work is repeated once if some of the keys disappeared between the
    /// read and the write. Work is also repeated if `MSETEX` took nothing although no key belongs to another client.
    pub(super) fn is_to_repeat(&self) -> bool {
        let is_lacking = match self.is_to_change() {
            true => self.seen.foreign == 0,
            false => self.seen.missing & !self.seen.done != 0 && !self.repeated,
        };
        self.takes() && is_lacking && !(self.is_refused() || self.withdrawn)
    }

    /// Prepares the work for another try.
    pub(super) fn repeat(&mut self) {
        self.repeated |= !self.is_to_change();
        self.again();
    }

    /// Returns a set that contains the bit of every key.
    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.entry.names().len().clamp(1, 64))
    }

    // ----- answers --------------------------------------------------------------------------

    /// Returns the result that a script would have given.
    pub(super) fn said(&self) -> Result<Reply, Refusal> {
        let Seen {
            missing,
            foreign,
            done,
            ..
        } = self.seen;
        let unknown = Refusal::Error(ServerError::from_line(b"ERR"));
        match (self.error, self.work) {
            (None, Work::Take(_)) if !self.may_be_done => Ok(match foreign {
                0 => Reply::NotDone(NodeOutcome::Pending), // The work was withdrawn.
                _ => Reply::Foreign(foreign.trailing_zeros() as u8),
            }),
            (None, Work::Take(_)) if foreign | missing & !done == 0 => Ok(Reply::Done),
            // The node may have set some of the keys, so the outcome is unknown.
            (_, Work::Take(_)) if self.may_be_done => Err(unknown),
            (Some(Refusal::Forbidden(Forbidden::Command | Forbidden::Within)), _) => {
                Err(Refusal::Forbidden(Forbidden::Part))
            }
            (Some(refusal), _) => Err(refusal),
            (None, Work::Take(_)) => Err(unknown),
            // `done` also contains keys that were missing at the read, but existed when they were deleted.
            (None, Work::Release) if done == self.all() => Ok(Reply::Done),
            (None, Work::Release) if foreign == 0 => Ok(Reply::Missing),
            (None, Work::Release | Work::Extend { .. }) => Ok(self.of_token(Reply::Done)),
            (None, Work::Probe) => Ok(Reply::Done),
            // The key expired between the read and the write.
            (None, Work::Overwrite) if (done | missing | foreign) != self.all() => {
                Ok(Reply::Missing)
            }
            (None, Work::Confirm | Work::Overwrite) => Ok(self.kept(kept_for)),
            (None, Work::Inspect { .. }) => Ok(self.kept(inspected)),
        }
    }

    /// Returns `yes` if all keys contain the token.
    fn of_token(&self, yes: Reply) -> Reply {
        match (self.seen.foreign, self.seen.missing) {
            (0, 0) => yes,
            (0, _) => Reply::Missing,
            _ => Reply::Foreign(0),
        }
    }

    /// Returns how much longer all keys live. The function `read` turns the number into a reply.
    fn kept(&self, read: fn(i64) -> Option<Reply>) -> Reply {
        let kept = read(self.seen.above.max(1));
        self.of_token(kept.unwrap_or(Reply::Missing))
    }

    /// Returns the token that an inspection has found.
    pub(super) fn token(&mut self) -> Option<OwnedToken> {
        self.token.take()
    }
}

/// Returns `true` if `value` is an error with this code that is not about a missing permission.
fn is_of(code: &str, value: Value<'_>) -> bool {
    value.as_error().is_some()
        && matches!(Refusal::of(value), Refusal::Error(error) if error.code() == code)
}
