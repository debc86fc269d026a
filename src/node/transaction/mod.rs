//! What is done without scripts in several commands: `WATCH`, reads, and `MULTI .. EXEC`.
//!
//! ```text
//!           .-------------- aborted: a key has changed, all of it again ----------.
//!           v                                                                     |
//!   Idle --begin--> Reading: MULTI EXEC, WATCH keys, GET, PTTL --ours--> Writing: MULTI, .., EXEC --> answers
//! ```
//!
//! Work waits in a queue until no transaction is open. Then as much of it as fits is a batch: all of its
//! keys are watched and read in one write, and what is ours is changed in another. `PEXPIRE` is the one
//! command that changes a key: it deletes one whose time is past. What a lock on several resources takes is
//! `SET`, each key in the same transaction.
//!
//! Where the node knows `MSETEX` and permits it, that takes all keys in one transaction, and they are not read
//! before. This is asked with the first such lock on a connection. What `MSETEX` has not taken, without a key that
//! is another's, is read, as is all that follows where it is refused.
//!
//! # Guarantees
//!
//! * One transaction is open at a time on a connection: `EXEC` ends all watches of it, also those of another.
//! * Nothing is changed that was another's when it was read, or has been changed since: nothing stands
//!   between `MULTI` and `EXEC` but what a batch writes, and an `EXEC` that was aborted has done nothing.
//! * `MULTI` is sent with commands behind it only after an empty one was accepted in the same batch: where
//!   it is refused, these would be run at once. With `MSETEX` it is sent after one was accepted on the same
//!   connection: where it is refused all the same, the connection is given up, and what may be set is owed.
//! * What was aborted is done again until it is done, refused or withdrawn, or the connection is gone.
//! * Of a lock on several resources all keys are taken or none, and none that the user could not release. It
//!   shares no batch with other work on one of its keys: what one of both has read would be changed by the
//!   other. Neither do two extensions of one lock.
//!
//! # Not here
//!
//! Who asks for it, and what follows from its answers: those are what a script would have answered.

mod job;
mod replies;
mod stages;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::entry::Entry;
use crate::keys::{ClaimKey, OperationKey};
use crate::limits::{REPLY_BYTES_MAX, STRING_BYTES_MAX};
use crate::time::Instant;

use super::Node;
use super::in_flight::Heard;
use super::reply::Reply;
use super::request::Request;
use job::{Job, Step};

pub(crate) use job::Work;

/// How much work there is in a batch at most.
const BATCH_MAX: usize = 256;

// What `EXEC` answers has room for the string and the time of each, with their headers.
const _: () = assert!(BATCH_MAX * (STRING_BYTES_MAX + 48) <= REPLY_BYTES_MAX);

/// How many keys a batch has at most, unless one piece of work alone has more.
const KEYS_MAX: usize = 256;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Transactions {
    queue: VecDeque<Job>,
    /// The work of the transaction that is open.
    batch: Vec<Job>,
    stage: Stage,
    /// The commands of this stage that are not answered, in their order.
    expected: VecDeque<Expected>,
    /// The commands between `MULTI` and `EXEC`, in their order.
    steps: Vec<(usize, u8, Step)>,
    /// How much work the next batch may have: less after one that was aborted.
    most: usize,
    done: VecDeque<Done>,
    /// The user may run `MSETEX`, or may not, as far as that was asked on this connection.
    sets_all: Option<bool>,
    /// Which command was forbidden last.
    forbidden: &'static str,
}

/// What is done at present.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Idle,
    Reading,
    Writing,
}

/// What the next reply answers. Work goes by its place in the batch, keys by their place in the work.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// An empty `MULTI`, and its `EXEC`.
    TryMulti,
    TryExec,
    Watch,
    Get(usize, u8),
    Left(usize, u8),
    /// A `PEXPIRE` that cannot be run.
    TryWrite(usize),
    /// An `MSETEX` that cannot be run.
    TrySetAll(usize),
    Multi,
    Queued(usize, Step),
    Exec,
}

/// Work that is done, or was refused.
#[derive(Debug)]
struct Done {
    request: Request,
    reply: Reply,
    shown: Option<Vec<u8>>,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            batch: Vec::new(),
            stage: Stage::Idle,
            expected: VecDeque::new(),
            steps: Vec::new(),
            most: BATCH_MAX,
            done: VecDeque::new(),
            sets_all: None,
            forbidden: "watch",
        }
    }
}

impl Transactions {
    /// Returns how much work waits or is being done.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.batch.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what the transaction that is open is to do, in how many steps, by what was read, who has asked for it,
    /// and whether that one wants it still.
    #[cfg(feature = "internals")]
    pub(super) fn open(&self) -> impl Iterator<Item = (Work, &Entry, usize, (u64, bool))> {
        self.batch.iter().map(|job| {
            let mut steps = 0;
            job.steps(|_, _| steps += 1);
            (job.work, &job.entry, steps, (job.asker(), !job.withdrawn))
        })
    }

    /// Returns what waits, and who has asked for it.
    #[cfg(feature = "internals")]
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Work, &Entry, u64)> {
        let queue = self.queue.iter();
        queue.map(|job| (job.work, &job.entry, job.asker()))
    }

    /// Returns the command that was forbidden last, as ACL rules name it.
    pub(super) const fn forbidden(&self) -> &'static str {
        self.forbidden
    }

    /// Returns `true` if a release of a claim for which `same` holds is not done.
    pub(super) fn is_releasing(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        let mut all = self.queue.iter().chain(&self.batch);
        all.any(|job| matches!(job.request, Request::Release { claim, .. } if same(claim)))
    }

    /// Returns `true` if a release of a claim for which `same` holds is not written yet: what is sent now stands
    /// before it.
    pub(super) fn is_to_release(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        let is_written = self.stage == Stage::Writing;
        let begun = self.batch.iter().filter(|_| !is_written);
        let mut all = self.queue.iter().chain(begun);
        all.any(|job| matches!(job.request, Request::Release { claim, .. } if same(claim)))
    }

    /// Returns `true` if keys are being taken for `request`.
    #[cold]
    pub(super) fn is_taking(&self, request: Request) -> bool {
        let mut all = self.queue.iter().chain(&self.batch);
        all.any(|job| job.request == request && job.takes())
    }

    /// Takes the work of `request` out again, if it was not begun.
    #[cold]
    fn withdraw(&mut self, request: Request) -> bool {
        let is = |job: &Job| job.request == request;
        if let Some(place) = self.queue.iter().rposition(is) {
            if self.queue[place].may_be_done {
                self.queue[place].repeated = true;
                return false;
            }
            self.queue.remove(place);
            return true;
        }
        // What was begun is done, but not again if it is aborted; what is taken counts as one copy more.
        for job in self.batch.iter_mut().filter(|job| is(job) && !job.takes()) {
            job.withdrawn = true;
        }
        false
    }

    /// Nobody wants the keys any more that are taken for `request`. Returns `true` if none of them is: they were
    /// only read.
    #[cold]
    pub(super) fn give_up_taking(&mut self, request: Request) -> bool {
        let reading = self.stage == Stage::Reading;
        let mut untaken = false;
        let is = |job: &&mut Job| job.request == request && job.takes();
        for job in self.batch.iter_mut().filter(is) {
            job.withdrawn = true;
            untaken |= reading && !job.may_be_done;
        }
        untaken
    }

    /// Forgets everything because the connection is gone. Yields what was not done, and whether any of it
    /// may have been.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Request, bool)> {
        let may_be_done = self.stage == Stage::Writing;
        self.stage = Stage::Idle;
        self.expected.clear();
        self.sets_all = None;
        // What was not handed out before the connection was given up.
        let done = self.done.drain(..).map(|done| (done.request, true));
        let gone = move |job: &Job| !may_be_done && job.is_untaken();
        let batch = self.batch.drain(..).filter(move |job| !gone(job));
        let batch = batch.map(move |job| (job.request, may_be_done || job.may_be_done));
        let queue = self.queue.drain(..);
        let queue = queue.map(|job| (job.request, job.may_be_done));
        done.chain(batch).chain(queue)
    }

    // ----- a batch --------------------------------------------------------------------------

    /// Makes the next batch of what waits.
    fn begin(&mut self) {
        let mut keys = 0;
        while let Some(job) = self.queue.front()
            && self.batch.len() < self.most
            && (keys == 0 || keys + job.entry.names().len() <= KEYS_MAX)
            && !self
                .batch
                .iter()
                .any(|other| other.disturbs(job) || other.extends_too(job))
        {
            keys += job.entry.names().len();
            self.batch.extend(self.queue.pop_front());
        }
        let known = self.sets_all == Some(true);
        self.batch.iter_mut().for_each(|job| job.begin(known));
    }

    /// Puts what was not done back in front of all that waits. Less of it is tried at once.
    fn abort(&mut self) {
        self.most = (self.batch.len() / 2).max(1);
        while let Some(mut job) = self.batch.pop() {
            if job.is_refused() || job.withdrawn && job.takes() {
                self.finish(job);
            } else if !job.withdrawn {
                job.again();
                self.queue.push_front(job);
            }
        }
    }

    fn finish(&mut self, job: Job) {
        self.done.push_back(Done {
            request: job.request,
            reply: job.reply(),
            shown: job.shown(),
        });
    }
}

impl Node {
    /// Does `work` on the keys of `entry`, as soon as no transaction is open. What it comes to is answered to
    /// `request`.
    #[cold]
    #[inline(never)]
    pub(crate) fn transact(&mut self, now: Instant, request: Request, entry: &Entry, work: Work) {
        self.send_time(now, request);
        self.in_flight.reserve();
        let job = Job::new(request, entry.clone(), work);
        self.transactions.queue.push_back(job);
        self.begin_transaction(now);
    }

    /// Returns what the transaction that is open is to do, in how many steps, who has asked for it, and whether that
    /// one wants it still. For the simulator.
    #[cfg(feature = "internals")]
    pub(crate) fn open_work(&self) -> impl Iterator<Item = (Work, &Entry, usize, (u64, bool))> {
        self.transactions.open()
    }

    /// Returns what waits until no transaction is open, and who has asked for it, for the simulator.
    #[cfg(feature = "internals")]
    pub(crate) fn waiting_work(&self) -> impl Iterator<Item = (Work, &Entry, u64)> {
        self.transactions.waiting()
    }

    /// Takes the work of `request` out again, if it was not begun.
    #[cold]
    pub(super) fn withdraw_work(&mut self, request: Request) -> bool {
        let queued = self.transactions.queue.len();
        let withdrawn = self.transactions.withdraw(request);
        if self.transactions.queue.len() < queued {
            self.in_flight.unreserve();
        }
        withdrawn
    }

    /// Returns the next piece of work that is done.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "one kind of work is answered in a way of its own"
    )]
    pub(super) fn next_transacted(&mut self) -> Option<Heard> {
        let done = self.transactions.done.pop_front()?;
        self.shown = done.shown;
        let reply = if let Reply::Error(_) | Reply::Forbidden(_) = done.reply {
            self.reworded(done.request, done.reply, true)
        } else {
            done.reply
        };
        Some(match done.request {
            Request::Probe { claim, way, .. } => Heard::Tried { claim, way, reply },
            _ => Heard::Answer(done.request, reply),
        })
    }

    /// Returns what was shown by the latest answer, in wire form, and to whom.
    pub(crate) fn take_shown(&mut self, heard: &Heard) -> Option<(OperationKey, Vec<u8>)> {
        let Heard::Answer(Request::Question { operation, .. }, _) = heard else {
            return None;
        };
        self.shown.take().map(|shown| (*operation, shown))
    }
}
