//! Handles the server's replies in a transaction, command by command.

use crate::error::LinkFault;
use crate::node::handshake::Trouble;
use crate::node::refusal::{Forbidden, Refusal};
use crate::resp::Value;

use super::job::{Job, Step};
use super::{BATCH_MAX, Expected, Transactions};

impl Transactions {
    /// Handles `value`, the reply to the next command of the transaction. Returns `true` if this was the last reply of
    /// a stage.
    ///
    /// # Errors
    ///
    /// Fails if the reply does not show how far the server is in the transaction.
    #[cold]
    #[inline(never)]
    pub(in crate::node) fn heard(&mut self, value: Value<'_>) -> Result<bool, Trouble> {
        let expected = self.expected.pop_front();
        match expected.ok_or(Trouble::Link(LinkFault::Protocol))? {
            Expected::TryMulti => self.check("multi", value),
            Expected::TryExec if matches!(value, Value::Null | Value::Array(_)) => {}
            Expected::TryExec => self.check("exec", value),
            Expected::Watch => self.check("watch", value),
            Expected::Get(place, number) => {
                self.note("get", value);
                self.batch[place].read(number, value);
            }
            Expected::Left(place, number) => {
                self.note("pttl", value);
                self.batch[place].left(number, value);
            }
            Expected::TryWrite(place) => {
                self.note("pexpire", value);
                self.batch[place].may_write(value);
            }
            Expected::TrySetAll(place) => self.may_set_all(place, value),
            // The server has accepted an earlier `MULTI`, but refused this one. So the server may have run the commands
            // after this `MULTI`, and the connection must end.
            Expected::Multi if !is_ok(value) => {
                if self.batch.iter().any(|job| job.work.watches()) {
                    return Err(Trouble::Link(LinkFault::Protocol));
                }
                self.note("multi", value);
                let refusal = Refusal::of(value);
                self.batch.iter_mut().for_each(|job| job.refused(refusal));
            }
            Expected::Multi => {}
            Expected::Queued(place, step) => {
                let queued = matches!(value, Value::Simple(b"QUEUED"));
                if let Step::SetAll(_) = step
                    && !queued
                    && refuses_for_good(value)
                {
                    self.sets_all = Some(false);
                    self.batch[place].read_first();
                } else if !queued {
                    let verb = match step {
                        Step::Set(_) | Step::Overwrite => "set",
                        Step::SetAll(_) => "msetex",
                        Step::Delete | Step::Raise(_) | Step::TryWrite => "pexpire",
                        Step::Get => "get",
                        Step::Left => "pttl",
                    };
                    self.note(verb, value);
                    self.batch[place].refused(Refusal::of(value));
                }
            }
            Expected::Exec => self.executed(value)?,
        }
        Ok(self.expected.is_empty())
    }

    /// Handles the answer to an `MSETEX` with an invalid argument, which shows whether the user may run `MSETEX`. A
    /// refusal proves nothing if it is temporary or concerns only these keys.
    fn may_set_all(&mut self, place: usize, value: Value<'_>) {
        if self.batch[place].is_refused() {
            return;
        }
        // The server lets the user run the command, and only rejects its argument.
        let permits = is_error(value)
            && matches!(Refusal::of(value), Refusal::Error(error) if error.code() == "ERR");
        if permits || refuses_for_good(value) {
            self.sets_all = Some(permits);
        }
    }

    /// If `value` reports that the user may not run `verb`, stores this fact. Only the first answer of this kind in a
    /// batch counts.
    fn note(&mut self, verb: &'static str, value: Value<'_>) {
        if is_error(value)
            && Refusal::of(value) == Refusal::Forbidden(Forbidden::Command)
            && !self.batch.iter().any(Job::is_refused)
        {
            self.forbidden = verb;
        }
    }

    /// Handles `value`, the reply to the command `verb`. If the server has refused the command, every job with watches
    /// fails.
    fn check(&mut self, verb: &'static str, value: Value<'_>) {
        if is_ok(value) {
            return;
        }
        let mut refusal = Refusal::of(value);
        // A forbidden `EXEC` has the same error code as an aborted one.
        let says = |text: &[u8], line: &[u8]| line.windows(text.len()).any(|part| part == text);
        if let Value::Error(line) = value
            && line.starts_with(b"EXECABORT")
            && says(b"permissions to run", line)
        {
            refusal = Refusal::Forbidden(Forbidden::Command);
        }
        if refusal == Refusal::Forbidden(Forbidden::Command) {
            let known = self.batch.iter().any(Job::is_refused);
            self.forbidden = if known { self.forbidden } else { verb };
        }
        for job in self.batch.iter_mut().filter(|job| job.work.watches()) {
            job.refused(refusal);
        }
    }

    /// Handles `value`, the reply to `EXEC`. `EXEC` has run either all commands or none.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what no transaction is answered with ends the connection"
    )]
    fn executed(&mut self, value: Value<'_>) -> Result<(), Trouble> {
        match value {
            Value::Null => self.abort(),
            Value::Array(items) if items.len() == self.steps.len() => {
                for ((place, number, step), value) in self.steps.iter().zip(items.iter()) {
                    self.batch[*place].wrote(*number, *step, value);
                    if let Step::SetAll(_) = step
                        && refuses_for_good(value)
                    {
                        self.sets_all = Some(false);
                    }
                }
                self.most = (2 * self.most).min(BATCH_MAX);
            }
            Value::Error(line) if line.starts_with(b"EXECABORT") => {
                // Jobs whose own commands were refused stay refused. The other jobs are tried again.
                let known = |job: &Job| job.is_refused() || job.is_to_change();
                if !self.batch.iter().any(known) {
                    let refusal = Refusal::of(value);
                    self.batch.iter_mut().for_each(|job| job.refused(refusal));
                }
                self.abort();
            }
            // The server has refused `MULTI`, so there was nothing to execute.
            Value::Error(_) if self.batch.iter().all(Job::is_refused) => self.abort(),
            _ => return Err(Trouble::Link(LinkFault::Protocol)),
        }
        Ok(())
    }
}

const fn is_error(value: Value<'_>) -> bool {
    value.as_error().is_some()
}

const fn is_ok(value: Value<'_>) -> bool {
    matches!(value, Value::Simple(b"OK"))
}

/// Returns `true` if `value` means that the server does not know the command, or does not permit it to the user.
fn refuses_for_good(value: Value<'_>) -> bool {
    is_error(value)
        && match Refusal::of(value) {
            Refusal::Error(error) => error.code() == "ERR",
            Refusal::Forbidden(by) => by == Forbidden::Command,
        }
}
