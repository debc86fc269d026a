//! Work that is done without scripts, in several commands: `WATCH`, reads, and `MULTI .. EXEC`.
//!
//! ```text
//!           .-------------- aborted: a key has changed, all of it again ----------.
//!           v                                                                     |
//!   Idle --begin--> Reading: MULTI EXEC, WATCH keys, GET, PTTL --ours--> Writing: MULTI, .., EXEC --> answers
//! ```
//!
//! Work waits in a queue until no transaction is open. Then as much of it as fits becomes a batch: all of its keys are
//! watched and read in one write, and the keys that hold our tokens are changed in another. `PEXPIRE` is the only
//! command that changes a key; with a time in the past it deletes the key. For a lock on several resources, each key is
//! taken by a `SET` in the same transaction.
//!
//! If the node knows and permits `MSETEX`, one such command takes all keys in one transaction, and they are not read
//! before. The first such lock on a connection asks for the permission. If `MSETEX` did not take the keys although none
//! is another's, they are read after all. If it was refused, the keys of all later locks are read too.
//!
//! # Guarantees
//!
//! * One transaction is open at a time on a connection, because `EXEC` ends all watches of the connection.
//! * A key is changed only if it was not another's when it was read and has not changed since. Between `MULTI` and
//!   `EXEC` there are only the writes of one batch, and an aborted `EXEC` has done nothing.
//! * Before a `MULTI` with commands behind it is sent, an empty one has to be accepted in the same batch: a server that
//!   refuses `MULTI` would run these commands at once. With `MSETEX`, an empty one accepted earlier on the same
//!   connection is enough. If `MULTI` is refused all the same, the connection is given up, and whatever may be set is a
//!   debt.
//! * Aborted work is repeated until it is done, refused or withdrawn, or the connection is gone.
//! * A lock on several resources takes all keys or none, and never a key that the user could not release. It shares no
//!   batch with other work on one of its keys, because each would change what the other has read. Nor do two extensions
//!   of one lock share a batch.
//!
//! # Not here
//!
//! The callers of the work. The meaning of its answers: they are the ones that scripts would give.

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

/// The most work in one batch.
const BATCH_MAX: usize = 256;

// The answer to `EXEC` has room for the string and the time that each piece of work reads, with their headers.
const _: () = assert!(BATCH_MAX * (STRING_BYTES_MAX + 48) <= REPLY_BYTES_MAX);

/// The most keys in one batch, unless a single piece of work has more.
const KEYS_MAX: usize = 256;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Transactions {
    queue: VecDeque<Job>,
    /// The work of the open transaction.
    batch: Vec<Job>,
    stage: Stage,
    /// The commands of this stage that are not answered, in order.
    expected: VecDeque<Expected>,
    /// The commands between `MULTI` and `EXEC`, in order.
    steps: Vec<(usize, u8, Step)>,
    /// The most work for the next batch. It is halved after an abort.
    most: usize,
    pub(in crate::node) done: VecDeque<Done>,
    /// Whether the user may run `MSETEX`. `None` until the answer on this connection.
    sets_all: Option<bool>,
    /// The command that was forbidden last.
    forbidden: &'static str,
}

/// What the transactions are doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Idle,
    Reading,
    Writing,
}

/// The command that the next reply answers. Work is numbered by its index in the batch, keys by their index in the
/// work.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// An empty `MULTI` and its `EXEC`.
    TryMulti,
    TryExec,
    Watch,
    Get(usize, u8),
    Left(usize, u8),
    /// A `PEXPIRE` with a wrong argument.
    TryWrite(usize),
    /// An `MSETEX` with a wrong argument.
    TrySetAll(usize),
    Multi,
    Queued(usize, Step),
    Exec,
}

/// Work that was done or refused.
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
    /// Returns how much work waits or is being done.
    pub(in crate::node) fn len(&self) -> usize {
        self.queue.len() + self.batch.len()
    }

    pub(in crate::node) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the work of the open transaction: what it does, its entry, its number of steps by what was read, who has
    /// asked for it, and whether it is still wanted.
    #[cfg(feature = "internals")]
    pub(crate) fn open(&self) -> impl Iterator<Item = (Work, &Entry, usize, (u64, bool))> {
        self.batch.iter().map(|job| {
            let mut steps = 0;
            job.steps(|_, _| steps += 1);
            (job.work, &job.entry, steps, (job.asker(), !job.withdrawn))
        })
    }

    /// Returns the work that waits, and who has asked for it.
    #[cfg(feature = "internals")]
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Work, &Entry, u64)> {
        let queue = self.queue.iter();
        queue.map(|job| (job.work, &job.entry, job.asker()))
    }

    /// Returns the command that was forbidden last, as ACL rules name it.
    pub(in crate::node) const fn forbidden(&self) -> &'static str {
        self.forbidden
    }

    /// Returns `true` if a release is not done, and `same` holds for its claim.
    pub(in crate::node) fn is_releasing(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        let mut all = self.queue.iter().chain(&self.batch);
        all.any(|job| matches!(job.request, Request::Release { claim, .. } if same(claim)))
    }

    /// Returns `true` if a release is not written yet, and `same` holds for its claim: a command sent now goes before
    /// it.
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

    /// Does `work` on the keys of `entry` as soon as no transaction is open. Its result is the answer to `request`.
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

    /// Removes the work of `asker` if it has not begun.
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
        // Work that has begun goes on, but is not repeated if it is aborted. Work that takes keys is not withdrawn: it
        // counts as a copy that was sent.
        for job in self.batch.iter_mut().filter(|job| is(job) && !job.takes()) {
            job.withdrawn = true;
        }
        false
    }

    /// The keys that are being taken for `claim` are no longer wanted. Returns `true` if none of them is taken,
    /// because they were only read.
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

    /// Forgets everything because the connection is gone. Yields the work that was not done, and whether any of it may
    /// have been done.
    pub(in crate::node) fn drain(&mut self) -> impl Iterator<Item = (Request, bool)> {
        let may_be_done = self.stage == Stage::Writing;
        self.stage = Stage::Idle;
        self.expected.clear();
        self.sets_all = None;
        // Answers that were not passed on before the connection was given up.
        let done = self.done.drain(..).map(|done| (done.request, true));
        let gone = move |job: &Job| !may_be_done && job.is_untaken();
        let batch = self.batch.drain(..).filter(move |job| !gone(job));
        let batch = batch.map(move |job| (job.request, may_be_done || job.may_be_done));
        let queue = self.queue.drain(..);
        let queue = queue.map(|job| (job.request, job.may_be_done));
        done.chain(batch).chain(queue)
    }

    // ----- a batch --------------------------------------------------------------------------

    /// Makes the next batch from the work that waits.
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

    /// Puts unfinished work back to the front of the queue. The next batch is smaller.
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
