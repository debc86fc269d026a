//! Work without scripts needs several commands, from `WATCH` and reads to `MULTI` and `EXEC`.
//!
//! ```text
//!           .-------------- aborted: a key has changed, all of it again ----------.
//!           v                                                                     |
//!   Idle --begin--> Reading: MULTI EXEC, WATCH keys, GET, PTTL --ours--> Writing: MULTI, .., EXEC --> answers
//! ```
//!
//! Work waits in a queue until no transaction is open. As much of the waiting work as possible goes into the next
//! batch. One write watches and reads all keys of the batch, and another write changes the keys that contain our
//! tokens. Extensions and releases change a key only by `PEXPIRE`. With a time in the past, `PEXPIRE` deletes the key.
//! For a lock on several resources, each key is taken by a `SET` in the same transaction.
//!
//! If the node knows and permits `MSETEX`, one `MSETEX` takes all keys without reading them first. When the engine
//! takes the first lock on several resources on a connection, it checks whether the user may run `MSETEX`. If `MSETEX`
//! does not take the keys although no other client has any of them, the engine tries again, and reads the keys first.
//! If the node refuses `MSETEX`, the engine also reads the keys of all later locks first.
//!
//! # Guarantees
//!
//! * Only one transaction is open at a time on a connection, because `EXEC` ends all watches of the connection.
//! * A key is changed only if it did not belong to another client when it was read, and has not changed since. Between
//!   `MULTI` and `EXEC`, the engine sends only the writes of one batch. An aborted `EXEC` changes nothing.
//! * A server that refuses `MULTI` would run the commands immediately. So the server must first accept an empty `MULTI`
//!   in the same batch. For an `MSETEX`, it is enough that the server has accepted an empty `MULTI` earlier on the
//!   connection. If the server still refuses a `MULTI`, the engine closes the connection, and later releases all keys
//!   that may be set.
//! * Aborted work is repeated until it is done, refused or withdrawn, or until the connection ends.
//! * A lock on several resources takes all keys or none, and never takes a key that the user could not release. A lock
//!   on several resources never shares a batch with other work on the same keys, because each would change keys that
//!   the other has read. Two extensions of one lock are never in the same batch.
//!
//! # Not here
//!
//! Other modules request the work. The answers have the same meaning as those of scripts.

mod job;
mod replies;
mod stages;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::entry::Entry;
use crate::keys::ClaimKey;
use crate::limits::{REPLY_BYTES_MAX, STRING_BYTES_MAX};
use crate::node::refusal::Refusal;
use crate::node::reply::Reply;
use crate::node::request::{Asker, Request};
use crate::resource::OwnedToken;
use crate::time::Instant;

use super::wire::Wire;
use job::{Job, Step};

pub(crate) use job::Work;

/// The maximum number of jobs in one batch.
const BATCH_MAX: usize = 256;

// For each job, the answer to `EXEC` contains a string and a time, with their headers. The answer must fit into the
// longest allowed reply.
const _: () = assert!(BATCH_MAX * (STRING_BYTES_MAX + 48) <= REPLY_BYTES_MAX);

/// The maximum number of keys in one batch, unless a single job has more keys.
const KEYS_MAX: usize = 256;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Transactions {
    queue: VecDeque<Job>,
    /// The jobs of the open transaction.
    batch: Vec<Job>,
    stage: Stage,
    /// The unanswered commands of this stage, in order.
    expected: VecDeque<Expected>,
    /// The commands between `MULTI` and `EXEC`, in order.
    steps: Vec<(usize, u8, Step)>,
    /// The maximum number of jobs in the next batch. An abort halves this number.
    most: usize,
    pub(in crate::node) done: VecDeque<Done>,
    /// Whether the user may run `MSETEX`, or `None` until this is known.
    sets_all: Option<bool>,
    /// The latest command that was forbidden.
    forbidden: &'static str,
}

/// The stage of the transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Idle,
    Reading,
    Writing,
}

/// The command that the next reply answers. A job is identified by its index in the batch, and a key by its index in
/// the job.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// An empty `MULTI` and its `EXEC`.
    TryMulti,
    TryExec,
    Watch,
    Get(usize, u8),
    Left(usize, u8),
    /// A `PEXPIRE` with an invalid argument.
    TryWrite(usize),
    /// An `MSETEX` with an invalid argument.
    TrySetAll(usize),
    Multi,
    Queued(usize, Step),
    Exec,
}

/// A finished job, which was done or refused.
#[derive(Debug)]
pub(in crate::node) struct Done {
    pub(in crate::node) request: Request,
    pub(in crate::node) said: Result<Reply, Refusal>,
    /// The token that an inspection has found.
    pub(in crate::node) token: Option<OwnedToken>,
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
    /// Returns how many jobs are waiting or running.
    pub(in crate::node) fn len(&self) -> usize {
        self.queue.len() + self.batch.len()
    }

    pub(in crate::node) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the work, the entry, the number of steps and the asker of each job in the open transaction. The flag is
    /// `false` if the work was withdrawn.
    #[cfg(feature = "internals")]
    pub(crate) fn open(&self) -> impl Iterator<Item = (Work, &Entry, usize, (u64, bool))> {
        self.batch.iter().map(|job| {
            let mut steps = 0;
            job.steps(|_, _| steps += 1);
            (job.work, &job.entry, steps, (job.asker(), !job.withdrawn))
        })
    }

    /// Returns the waiting jobs, with their askers.
    #[cfg(feature = "internals")]
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Work, &Entry, u64)> {
        let queue = self.queue.iter();
        queue.map(|job| (job.work, &job.entry, job.asker()))
    }

    /// Returns the latest forbidden command, by its name in ACL rules.
    pub(in crate::node) const fn forbidden(&self) -> &'static str {
        self.forbidden
    }

    /// Returns `true` if a release is unfinished, and `same` returns `true` for its claim.
    pub(in crate::node) fn is_releasing(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        let mut all = self.queue.iter().chain(&self.batch);
        all.any(|job| matches!(job.request, Request::Release { claim, .. } if same(claim)))
    }

    /// Returns `true` if a release is not written yet, and `same` returns `true` for its claim. A command that is sent
    /// now would overtake an unwritten release.
    pub(crate) fn is_to_release(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        let is_written = self.stage == Stage::Writing;
        let begun = self.batch.iter().filter(|_| !is_written);
        let mut all = self.queue.iter().chain(begun);
        all.any(|job| matches!(job.request, Request::Release { claim, .. } if same(claim)))
    }

    /// Returns `true` if keys are being taken for `claim`.
    #[cold]
    pub(in crate::node) fn is_taking(&self, claim: ClaimKey) -> bool {
        let mut all = self.queue.iter().chain(&self.batch);
        all.any(|job| job.request.takes_for(claim))
    }

    /// Does `work` on the keys of `entry` as soon as no other transaction is open. The result is the answer to
    /// `request`.
    #[cold]
    #[inline(never)]
    pub(in crate::node) fn add(
        &mut self,
        now: Instant,
        request: Request,
        entry: &Entry,
        work: Work,
        wire: &mut Wire,
    ) {
        wire.in_flight.reserve();
        let job = Job::new(request, entry.clone(), work);
        self.queue.push_back(job);
        self.start(now, wire);
    }

    /// Removes the work of `asker` if the work has not begun.
    #[cold]
    pub(super) fn withdraw(&mut self, asker: Asker, wire: &mut Wire) -> bool {
        let is = |job: &Job| Asker::of(job.request) == Some(asker);
        if let Some(place) = self.queue.iter().rposition(is) {
            if self.queue[place].may_be_done {
                self.queue[place].repeated = true;
                return false;
            }
            self.queue.remove(place);
            wire.in_flight.unreserve();
            return true;
        }
        // Work that has begun continues, but is not repeated after an abort. Work that takes keys is not marked as
        // withdrawn, because the engine treats its `SET` as sent.
        for job in self.batch.iter_mut().filter(|job| is(job) && !job.takes()) {
            job.withdrawn = true;
        }
        false
    }

    /// Withdraws the work that takes the keys for `claim`. Returns `true` if the transaction has only read these keys.
    #[cold]
    pub(in crate::node) fn give_up_taking(&mut self, claim: ClaimKey) -> bool {
        let reading = self.stage == Stage::Reading;
        let mut untaken = false;
        let is = |job: &&mut Job| job.request.takes_for(claim);
        for job in self.batch.iter_mut().filter(is) {
            job.withdrawn = true;
            untaken |= reading && !job.may_be_done;
        }
        untaken
    }

    /// Forgets everything because the connection is lost. Yields each unfinished job, and whether any part of it may
    /// have been done.
    pub(in crate::node) fn drain(&mut self) -> impl Iterator<Item = (Request, bool)> {
        let may_be_done = self.stage == Stage::Writing;
        self.stage = Stage::Idle;
        self.expected.clear();
        self.sets_all = None;
        // These jobs are done, but their answers were not passed on before the connection was closed.
        let done = self.done.drain(..).map(|done| (done.request, true));
        let gone = move |job: &Job| !may_be_done && job.is_untaken();
        let batch = self.batch.drain(..).filter(move |job| !gone(job));
        let batch = batch.map(move |job| (job.request, may_be_done || job.may_be_done));
        let queue = self.queue.drain(..);
        let queue = queue.map(|job| (job.request, job.may_be_done));
        done.chain(batch).chain(queue)
    }

    // ----- batches --------------------------------------------------------------------------

    /// Puts waiting jobs into the next batch.
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

    /// Moves unfinished jobs back to the front of the queue, and halves the size of the next batch.
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

    fn finish(&mut self, mut job: Job) {
        self.done.push_back(Done {
            request: job.request,
            said: job.said(),
            token: job.token(),
        });
    }
}
