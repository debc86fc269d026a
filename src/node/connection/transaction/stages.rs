//! The stages of a transaction: the commands of each stage, and the order of the stages.

use alloc::vec::Vec;

use crate::entry::Entry;
use crate::node::request::Purpose;
use crate::resource::broken;
use crate::resp::{Decimal, argument, command, write};
use crate::time::Instant;

use super::job::{Job, Step};
use super::{Expected, Stage, Transactions, Wire, Work};

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

impl Transactions {
    /// Continues with the next stage, after all commands of the current stage were answered.
    #[cold]
    #[inline(never)]
    pub(in crate::node) fn go_on(&mut self, now: Instant, wire: &mut Wire) {
        let before = self.len();
        if self.stage == Stage::Reading {
            self.finish_answered();
            self.execute(now, wire);
        } else {
            self.finish_all();
        }
        for _ in self.len()..before {
            wire.in_flight.unreserve();
        }
        self.start(now, wire);
    }

    /// Begins the reads of the next batch, if no batch is open.
    pub(super) fn start(&mut self, now: Instant, wire: &mut Wire) {
        let busy = self.stage != Stage::Idle;
        if busy || self.queue.is_empty() {
            return;
        }
        self.begin();
        self.stage = Stage::Reading;
        let watched = Job::is_to_read;
        let batch = core::mem::take(&mut self.batch);
        let keys = batch.iter().filter(|job| watched(job));
        let keys: usize = keys.map(|job| job.entry.names().len()).sum();
        if keys != 0 {
            self.ask_in(now, wire, Expected::TryMulti, |out| {
                out.extend_from_slice(MULTI)
            });
            self.ask_in(now, wire, Expected::TryExec, |out| {
                out.extend_from_slice(EXEC)
            });
            self.ask_in(now, wire, Expected::Watch, |out| {
                write::array(out, 1 + keys);
                argument(out, b"WATCH");
                for job in batch.iter().filter(|job| watched(job)) {
                    out.extend_from_slice(job.entry.key_arguments());
                }
            });
            for (place, job) in batch.iter().enumerate().filter(|(_, job)| watched(job)) {
                self.read_for(now, place, job, wire);
            }
        }
        self.batch = batch;
        if keys == 0 {
            self.execute(now, wire);
        }
    }

    fn read_for(&mut self, now: Instant, place: usize, job: &Job, wire: &mut Wire) {
        for (number, name) in job.entry.names().enumerate() {
            let number = number as u8;
            self.ask_in(now, wire, Expected::Get(place, number), |out| {
                command(out, &[b"GET", name]);
            });
            if job.work != Work::Release {
                self.ask_in(now, wire, Expected::Left(place, number), |out| {
                    command(out, &[b"PTTL", name]);
                });
            }
            if job.work == Work::Probe || job.takes() {
                self.ask_in(now, wire, Expected::TryWrite(place), |out| {
                    command(out, &[b"PEXPIRE", name, b"?"]);
                });
            }
        }
        if job.takes() && self.sets_all.is_none() {
            self.ask_in(now, wire, Expected::TrySetAll(place), |out| {
                set_all(out, &job.entry, b"?");
            });
        }
    }

    /// Finishes the jobs whose answer follows from the reads alone.
    fn finish_answered(&mut self) {
        let mut watching = self.batch.iter().filter(|job| job.work.watches());
        if 1 < watching.clone().count() && watching.all(Job::is_refused) {
            // The refusal may concern one key among many, so each job is tried alone.
            let mut batch = core::mem::take(&mut self.batch);
            self.most = 1;
            while let Some(mut job) = batch.pop() {
                if !job.withdrawn {
                    job.alone();
                    self.queue.push_front(job);
                } else if job.takes() && !job.is_untaken() {
                    self.finish(job); // Some of the keys may be taken, and need a release.
                }
            }
            return;
        }
        for job in core::mem::take(&mut self.batch) {
            match job.is_answered() {
                _ if job.is_untaken() => {}
                true => self.finish(job),
                false => self.batch.push(job),
            }
        }
    }

    /// Writes all changes of the batch together.
    fn execute(&mut self, now: Instant, wire: &mut Wire) {
        if self.batch.is_empty() {
            self.stage = Stage::Idle;
            return;
        }
        self.stage = Stage::Writing;
        let batch = core::mem::take(&mut self.batch);
        let mut steps = core::mem::take(&mut self.steps);
        steps.clear();
        if batch.iter().any(Job::is_told) {
            wire.register(now); // The transaction registers everything that is read until `EXEC`.
        }
        self.ask_in(now, wire, Expected::Multi, |out| {
            out.extend_from_slice(MULTI)
        });
        for (place, job) in batch.iter().enumerate() {
            job.steps(|number, step| steps.push((place, number, step)));
        }
        for (place, number, step) in &steps {
            let name = batch[*place].entry.names().nth(usize::from(*number));
            let name = name.unwrap_or_default();
            let token = batch[*place].entry.token();
            let expected = Expected::Queued(*place, *step);
            self.ask_in(now, wire, expected, |out| match step {
                Step::Set(life) => {
                    let (token, life) = (token.as_bytes(), Decimal::millis(*life));
                    command(out, &[b"SET", name, token, b"NX", b"PX", life.as_bytes()]);
                }
                Step::SetAll(life) => {
                    set_all(out, &batch[*place].entry, Decimal::millis(*life).as_bytes())
                }
                Step::TryWrite => command(out, &[b"PEXPIRE", name, b"?"]),
                Step::Delete => command(out, &[b"PEXPIRE", name, b"-1"]),
                Step::Raise(life) => {
                    command(out, &[b"PEXPIRE", name, Decimal::millis(*life).as_bytes()])
                }
                Step::Get => command(out, &[b"GET", name]),
                Step::Left => command(out, &[b"PTTL", name]),
                Step::Overwrite => {
                    command(out, &[b"SET", name, &broken(token), b"XX", b"KEEPTTL"]);
                }
            });
        }
        self.ask_in(now, wire, Expected::Exec, |out| out.extend_from_slice(EXEC));
        (self.batch, self.steps) = (batch, steps);
    }

    /// Finishes the rest of the batch after the last stage. If some keys of a lock disappeared between the read and the
    /// write, tries again to take the lock.
    fn finish_all(&mut self) {
        let batch = core::mem::take(&mut self.batch).into_iter();
        let (again, done): (Vec<_>, Vec<_>) = batch.partition(Job::is_to_repeat);
        for mut job in again.into_iter().rev() {
            job.repeat();
            self.queue.push_front(job);
        }
        done.into_iter().for_each(|job| self.finish(job));
        self.stage = Stage::Idle;
    }

    /// Puts a command of the open transaction, which `write` appends, into the out buffer.
    fn ask_in(
        &mut self,
        now: Instant,
        wire: &mut Wire,
        expected: Expected,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        wire.put_with(now, Purpose::Transaction, write);
        self.expected.push_back(expected);
    }
}

/// Writes the command that takes either all keys of `entry` for `life`, or none.
fn set_all(out: &mut Vec<u8>, entry: &Entry, life: &[u8]) {
    let count = entry.names().len();
    write::array(out, 5 + 2 * count);
    argument(out, b"MSETEX");
    argument(out, Decimal::new(count as u64).as_bytes());
    for name in entry.names() {
        argument(out, name);
        out.extend_from_slice(entry.token_argument());
    }
    for word in [b"NX", b"PX", life] {
        argument(out, word);
    }
}
