//! One piece of work in a transaction: what it reads, what it writes, and what is answered for it.
//!
//! It answers what a script for the same would answer, so that nobody above knows how it was done. It may
//! be about several names, of which each has a bit.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::ServerError;
use crate::limits::RESOURCES_MAX;
use crate::node::reply::{Forbidden, Reply};
use crate::node::request::Request;
use crate::resource::broken;
use crate::resp::{Value, write};

/// What is to be done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Work {
    /// Have the keys hold the token and live for so long at least, if none is another's. Not if the user
    /// could not delete them.
    Take(Duration),
    /// Delete the keys that hold the token.
    Release,
    /// Have the keys live for so long at least, if all hold the token.
    Extend {
        /// For how long.
        life: Duration,
        /// The next changes of the keys are to be told.
        watched: bool,
    },
    /// Tell for how long the keys live on, if all hold the token.
    Confirm,
    /// Tell what is in the key, and for how long.
    Inspect {
        /// The next change of the key is to be told.
        watched: bool,
    },
    /// Have the key hold the token of a broken lock, if it holds the token.
    Overwrite,
    /// Nothing: it is asked whether the user may do all of this.
    Probe,
}

impl Work {
    /// Returns `true` if it reads before it writes: what it reads must not change in between.
    pub(super) const fn watches(self) -> bool {
        match self {
            Self::Take(_) | Self::Release | Self::Extend { .. } | Self::Overwrite | Self::Probe => {
                true
            }
            Self::Confirm | Self::Inspect { .. } => false,
        }
    }

    /// Returns its name, for the simulator.
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

    /// Returns for how long keys are to live at least, if it is to change that. For the simulator.
    #[cfg(feature = "internals")]
    pub(crate) const fn life(self) -> Option<Duration> {
        match self {
            Self::Take(life) | Self::Extend { life, .. } => Some(life),
            Self::Release
            | Self::Confirm
            | Self::Inspect { .. }
            | Self::Overwrite
            | Self::Probe => None,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) entry: Entry,
    pub(super) work: Work,
    /// It was withdrawn when it was begun: it is not done again if it is aborted.
    pub(super) withdrawn: bool,
    /// Some of what it takes may have been taken.
    pub(super) may_be_done: bool,
    /// It is taken once more, because some of it ended meanwhile.
    pub(super) repeated: bool,
    /// Its keys are taken by one `MSETEX`, and not read before.
    at_once: bool,
    /// `MSETEX` was refused, or has found some of the keys: they are read first from now on.
    reads_first: bool,
    seen: Seen,
    /// What it was refused by.
    error: Option<Reply>,
    /// What was found by an inspection, as an answer to its script.
    shown: Option<Vec<u8>>,
}

/// What is known of the keys. A bit for each.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ours: u64,
    missing: u64,
    foreign: u64,
    /// They live for less long than is wanted.
    short: u64,
    /// They were written to.
    done: u64,
    /// What is left of the one that ends first, and one more. Zero: it was not asked.
    above: i64,
}

const _: () = assert!(RESOURCES_MAX <= 64);

/// What a key without an end answers for what is left of it.
const FOREVER: i64 = 9_000_000_000_000_000;

/// One command about one key, between `MULTI` and `EXEC`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// `SET key token NX PX ttl`.
    Set(Duration),
    /// `MSETEX` of all keys, `NX PX ttl`: all of them, or none.
    SetAll(Duration),
    /// A `PEXPIRE` that cannot be run: nothing is run where the user may not write the key.
    TryWrite,
    /// `PEXPIRE key -1`.
    Delete,
    /// `PEXPIRE key ttl`.
    Raise(Duration),
    /// `GET key`.
    Get,
    /// `PTTL key`.
    Left,
    /// `SET key token XX KEEPTTL`, with the token of a broken lock.
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
            shown: None,
        }
    }

    /// It is begun. What it takes is taken by `MSETEX` if that is `known` to be permitted.
    pub(super) fn begin(&mut self, known: bool) {
        self.at_once = known && self.takes() && !self.reads_first;
    }

    /// Returns `true` if its keys are watched and read before they are written.
    pub(super) fn is_to_read(&self) -> bool {
        self.work.watches() && !self.at_once
    }

    /// `MSETEX` was refused, and has done nothing.
    pub(super) fn read_first(&mut self) {
        self.reads_first = true;
    }

    /// Returns `true` if it is done otherwise next time, because `MSETEX` was refused.
    pub(super) fn is_to_change(&self) -> bool {
        self.at_once && self.reads_first
    }

    /// Forgets what was read: it is read again.
    pub(super) fn again(&mut self) {
        self.seen = Seen::default();
    }

    /// Forgets also what it was refused by: it is asked for alone.
    pub(super) fn alone(&mut self) {
        self.again();
        self.error = None;
    }

    /// It was refused by `reply`. The first refusal counts.
    pub(super) fn refused(&mut self, reply: Reply) {
        self.error.get_or_insert(reply);
    }

    pub(super) fn is_refused(&self) -> bool {
        self.error.is_some()
    }

    /// Returns a number that tells who has asked for it from others who have asked for the same: another operation,
    /// or another claim. For the simulator.
    #[cfg(feature = "internals")]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others ask for nothing that is told apart"
    )]
    pub(super) fn asker(&self) -> u64 {
        match self.request {
            Request::Question { operation, .. } => operation.0.to_bits(),
            Request::Set { claim } | Request::Release { claim, .. } => claim.0.to_bits(),
            _ => 0,
        }
    }

    /// Returns `true` if the next changes of its keys are to be told.
    pub(super) fn is_told(&self) -> bool {
        matches!(
            self.work,
            Work::Inspect { watched: true } | Work::Extend { watched: true, .. }
        )
    }

    /// Returns `true` if it takes keys that nobody has.
    pub(super) fn takes(&self) -> bool {
        matches!(self.work, Work::Take(_))
    }

    /// Returns `true` if it was withdrawn before it took anything: it is nobody's any more.
    pub(super) fn is_untaken(&self) -> bool {
        self.withdrawn && self.takes() && !self.may_be_done
    }

    /// Returns `true` if one of both would change what the other has read in the same batch.
    pub(super) fn disturbs(&self, other: &Self) -> bool {
        let changes = |job: &Self| job.takes() || job.work == Work::Overwrite;
        (changes(self) || changes(other)) && self.entry.meets(&other.entry)
    }

    /// Returns `true` if both extend one lock. By what both have read, the one for less time would shorten what the
    /// other has just raised.
    pub(super) fn extends_too(&self, other: &Self) -> bool {
        let both = matches!(
            (self.work, other.work),
            (Work::Extend { .. }, Work::Extend { .. })
        );
        both && self.entry.token() == other.entry.token()
    }

    // ----- what is read ---------------------------------------------------------------------

    /// The key of this number holds `value`.
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
                self.shown = Some(text.to_vec());
            }
            Value::Bulk(text) if text == self.entry.token().as_bytes() => self.seen.ours |= bit,
            Value::Bulk(text)
                if self.work == Work::Overwrite && text == broken(self.entry.token()) =>
            {
                self.seen.ours |= bit;
            }
            Value::Bulk(_) => self.seen.foreign |= bit,
            _ if !self.inspects() && is_of("WRONGTYPE", value) => self.seen.foreign |= bit,
            _ => self.refused(Reply::of(value)),
        }
    }

    /// Returns `true` if it tells of any token, and of a key of another type by the error of the server.
    fn inspects(&self) -> bool {
        matches!(self.work, Work::Inspect { .. })
    }

    /// This is left of the key of this number.
    pub(super) fn left(&mut self, number: u8, value: Value<'_>) {
        let Some(left) = value.as_integer() else {
            return self.refused(Reply::of(value));
        };
        let bit = 1 << number;
        match left {
            // It would keep others out for ever.
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

    /// Whether the user may write was asked by a command that is wrong: a complaint about that is a yes.
    pub(super) fn may_write(&mut self, value: Value<'_>) {
        if !is_of("ERR", value) {
            self.refused(Reply::of(value));
        }
    }

    // ----- what is written ------------------------------------------------------------------

    /// Returns `true` if what was read is its answer already, or it was refused: it writes nothing.
    ///
    /// That a key is missing settles no release: what was read may be older than a `SET` that this node
    /// postpones. A command that writes stands behind that one.
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

    /// Hands its commands to `write`, each with the number of its key.
    pub(super) fn steps(&self, mut write: impl FnMut(u8, Step)) {
        let numbers = 0..self.entry.names().len() as u8;
        if let (true, Work::Take(life)) = (self.at_once, self.work) {
            numbers
                .clone()
                .for_each(|number| write(number, Step::TryWrite));
            write(0, Step::SetAll(life));
            numbers.for_each(|number| write(number, Step::Get)); // Whose they are.
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
                        write(number, Step::Left); // Which registers it again.
                    }
                }
                Work::Take(life) if self.seen.short & bit != 0 => write(number, Step::Raise(life)),
                // It shows that nothing has changed since it was read.
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

    /// The command `step` on the key of this number was answered by `value`.
    pub(super) fn wrote(&mut self, number: u8, step: Step, value: Value<'_>) {
        // What is taken by `MSETEX` is all taken, or nothing is: the steps around it take nothing.
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
            Step::Set(_) | Step::Overwrite => self.was_set(number, Reply::of(value)),
            Step::Delete | Step::Raise(_) => match value.as_integer() {
                Some(1) => self.seen.done |= 1 << number,
                Some(_) => {
                    self.seen.ours &= !(1 << number);
                    self.seen.missing |= 1 << number;
                }
                None => self.refused(Reply::of(value)),
            },
        }
    }

    /// A nil leaves it undone.
    fn was_set(&mut self, number: u8, reply: Reply) {
        if reply == Reply::Ok {
            self.seen.done |= 1 << number;
        } else if reply != Reply::Nil {
            self.refused(reply);
        }
    }

    /// Returns `true` if some of the keys that it takes were not there any more, for the first time: they ended
    /// between the reading and the writing. Or if `MSETEX` has met none but its own.
    pub(super) fn is_to_repeat(&self) -> bool {
        let is_lacking = match self.is_to_change() {
            true => self.seen.foreign == 0,
            false => self.seen.missing & !self.seen.done != 0 && !self.repeated,
        };
        self.takes() && is_lacking && !(self.is_refused() || self.withdrawn)
    }

    /// It is done once more.
    pub(super) fn repeat(&mut self) {
        self.repeated |= !self.is_to_change();
        self.again();
    }

    /// Returns the bits of all keys.
    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.entry.names().len().clamp(1, 64))
    }

    // ----- what is answered -----------------------------------------------------------------

    /// Returns what a script would have answered.
    pub(super) fn reply(&self) -> Reply {
        let Seen {
            missing,
            foreign,
            done,
            above,
            ..
        } = self.seen;
        let all = self.all();
        let said = |yes: i64| match (foreign, missing) {
            (0, 0) => yes,
            (0, _) => 0,
            _ => -1,
        };
        match (self.error, self.work) {
            (None, Work::Take(_)) if !self.may_be_done => match foreign {
                0 => Reply::Nil, // It was withdrawn.
                _ => Reply::Integer(2 + i64::from(foreign.trailing_zeros())),
            },
            (None, Work::Take(_)) if foreign | missing & !done == 0 => Reply::Integer(1),
            // It may have some of the keys. A refusal that is certain would owe them no release.
            (_, Work::Take(_)) if self.may_be_done => Reply::Error(ServerError::from_line(b"ERR")),
            (Some(Reply::Error(error)), _) => Reply::Error(error),
            (Some(Reply::Forbidden(Forbidden::Key)), _) => Reply::Forbidden(Forbidden::Key),
            (Some(Reply::Forbidden(_)), _) => Reply::Forbidden(Forbidden::Part),
            (Some(_), _) => Reply::Other,
            (None, Work::Take(_)) => Reply::Other,
            (None, Work::Release) if done == all => Reply::Integer(1),
            (None, Work::Release) if foreign != 0 => Reply::Integer(-1),
            (None, Work::Release | Work::Probe) => Reply::Integer(0),
            (None, Work::Extend { .. }) => Reply::Integer(said(1)),
            // It has ended between the reading and the writing.
            (None, Work::Overwrite) if (done | missing | foreign) != all => Reply::Integer(0),
            (None, Work::Confirm | Work::Overwrite) => Reply::Integer(said(above.max(1))),
            (None, Work::Inspect { .. }) => Reply::Pair(said(above.max(1)), 0),
        }
    }

    /// Returns what the script of an inspection would have answered, in wire form.
    pub(super) fn shown(&self) -> Option<Vec<u8>> {
        let (text, Reply::Pair(above, _)) = (self.shown.as_ref()?, self.reply()) else {
            return None;
        };
        let mut answer = Vec::new();
        write::array(&mut answer, 3);
        write::integer(&mut answer, above);
        write::integer(&mut answer, 0);
        write::bulk(&mut answer, text);
        Some(answer)
    }
}

/// Returns `true` if `value` is an error with this code, and not about a permission.
fn is_of(code: &str, value: Value<'_>) -> bool {
    matches!(Reply::of(value), Reply::Error(error) if error.code() == code)
}
