//! The supervisor takes the lock, starts the command through the watchdog, keeps the lock, and releases it.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use shearline::held::Holds;
use shearline::internals::{check_resources, now};
use shearline::{ExtendError, Guard, Instant, InvalidRequest, LockOptions, Redlock, UnlockError};

use super::Args;
use super::deadline::TTL_MIN;
use super::report::{self, Ending};
use super::signals::Signals;
use super::supervision::{Ended, Supervision};
use crate::failure::{Failure, no_quorum};
use crate::output::printable;
use crate::pace::Pace;
use crate::signals::wait;
use crate::status::Status;
use crate::taking::{Ask, next_look, take};

/// Runs the command under the lock. If an error has already occurred (`wrong`), only reports this error.
///
/// Writes the report before it drops the handle, because the handle may wait for nodes that confirm the release late.
pub(crate) fn run(args: &Args, wrong: Option<Failure>) -> ExitCode {
    let report = match args.report.as_deref().map(report::open).transpose() {
        Ok(report) => report,
        Err(error) => {
            let to_do =
                "give --report a file that can be written, or the number of an open descriptor";
            let error = format!("cannot write the report: {error}; {to_do}");
            return Failure::usage(error).report();
        }
    };
    let mut handle = None;
    let ended = wrong.map_or_else(|| attempt(args, &mut handle), Err);
    let mut ending = ended.unwrap_or_else(failed);
    if let Some(mut report) = report
        && let Err(error) = report.write_all(ending.line(&args.names()).as_bytes())
    {
        let what = format_args!("cannot write the report: {error}");
        Failure::new(Status::Failure, what).tell();
    }
    ending.tell();
    drop(handle);
    ending.status.exit()
}

/// Returns the [`Ending`] of a run that did not start its command.
fn failed(failure: Failure) -> Ending {
    let status = failure.status;
    let outcome = match status.word() {
        word @ ("held" | "no_quorum" | "not_started" | "interrupted") => word,
        _ => "failed",
    };
    Ending {
        outcome,
        status,
        error: Some(failure).filter(|_| outcome != "interrupted"),
        ..Ending::default()
    }
}

fn attempt(args: &Args, handle: &mut Option<Redlock>) -> Result<Ending, Failure> {
    let ttl = args.acquire.ttl;
    if ttl < TTL_MIN {
        let (what, least) = ("too short to end the command in time", TTL_MIN.as_secs());
        let what = format!("the ttl is {what}: give {least}s or more");
        return Err(Failure::usage(what));
    }
    let names = args.names();
    if (args.shared || args.permits.is_some()) && names.len() != 1 {
        return Err(Failure::usage(format_args!(
            "--shared and --permits take only one name, but {} were given: {}",
            names.len(),
            args.title()
        )));
    }
    can_see_processes()?;
    let builder = args.connect.nodes.builder()?;
    let builder = args.acquire.builder(builder, std::process::id());
    // Checks the request before the handle connects, because a handle with a strict guard writes markers when it
    // connects.
    builder.config()?.check_request(names[0], ttl)?;
    check_resources(&names).map_err(InvalidRequest::from)?;
    // Installs the signal handlers early. Without a handler, the first process of a container would not get the signal.
    let signals = Signals::catch()?;
    let by = args.acquire.by();
    let redlock = args.connect.connect(&builder, by)?;
    let mut run = Run {
        args,
        redlock: handle.insert(redlock),
        signals: &signals,
        pace: Pace::new(args.acquire.verbose),
    };
    let mut ending = run.once_as_asked(by)?;
    while ending.goes_on {
        ending.tell();
        let (started, losses) = (ending.started, ending.losses);
        match run.once_as_asked(args.acquire.by()) {
            Ok(next) => ending = next,
            Err(failure) if failure.status.word() == "interrupted" => ending = failed(failure),
            Err(failure) => {
                // The command that lost its lock may have left work half done. So the report shows the outcome of that
                // command, and not of this new attempt.
                ending.error = Some(failure);
                break;
            }
        }
        ending.started |= started;
        ending.losses += losses;
    }
    Ok(ending)
}

/// A run with a connected handle.
struct Run<'a> {
    args: &'a Args,
    redlock: &'a Redlock,
    signals: &'a Signals,
    pace: Pace,
}

impl Run<'_> {
    /// Calls [`once`](Self::once) for the lock, the shared lock or the permit that the arguments request.
    fn once_as_asked(&mut self, by: Instant) -> Result<Ending, Failure> {
        let (redlock, names) = (self.redlock, &self.args.names());
        match (self.args.permits, self.args.shared) {
            (Some(permits), _) => self.once(
                (&|it| redlock.permit_with_async(names[0], permits, it), by),
                |it| Some(it.slot()),
            ),
            (None, true) => {
                let asked = |it: &LockOptions| redlock.lock_shared_with_async(names[0], it);
                self.once((&asked, by), |_| None)
            }
            (None, false) => {
                let asked = |it: &LockOptions| redlock.lock_all_with_async(names, it);
                self.once((&asked, by), |_| None)
            }
        }
    }

    /// Takes the lock before the given time, and runs the command once.
    fn once<H: Holds>(
        &mut self,
        asked: (Ask<'_, H>, Instant),
        slot_of: fn(&Guard<H>) -> Option<u16>,
    ) -> Result<Ending, Failure> {
        let (args, signals) = (self.args, self.signals);
        let guard = self.acquire(asked)?;
        let at_least = now().saturating_add(args.at_least);
        let slot = slot_of(&guard);
        let supervision = Supervision::start(args, (&guard, slot), signals);
        let look = || {
            if !args.acquire.quiet {
                self.pace.look(self.redlock, &args.title());
            }
        };
        let ended = supervision.and_then(|supervision| supervision.run(look))?;
        if !ended.for_lock && ended.started == Some(Ok(())) {
            self.keep_until(at_least, &guard);
        }
        Ok(Ending {
            slot,
            goes_on: args.again && ended.for_lock && ended.all && !ended.is_done,
            ..finish(args, guard, ended)?
        })
    }

    /// Waits for the lock. Fails if a signal arrives.
    fn acquire<H: Holds>(&self, asked: (Ask<'_, H>, Instant)) -> Result<Guard<H>, Failure> {
        let check = || self.signals.check(&self.args.end);
        let guard = wait(self.extended(asked), check)??;
        // A signal that arrived meanwhile must end this program, because the command does not exist yet.
        if let Err(signal) = check() {
            let _ = guard.unlock(); // If no majority confirms the release, the lock expires.
            return Err(signal);
        }
        Ok(guard)
    }

    /// Takes the lock, and extends it once. So if the user of the nodes may not extend locks, `run` fails before it
    /// starts the command.
    async fn extended<H: Holds>(
        &self,
        (ask, by): (Ask<'_, H>, Instant),
    ) -> Result<Guard<H>, Failure> {
        let (acquire, names) = (&self.args.acquire, self.args.names());
        let ttl = acquire.ttl;
        // An extension to the same ttl would not run `PEXPIRE`, and so would not test the permission. So the first ttl
        // is 1 ms shorter.
        let options = acquire.options(ttl - Duration::from_millis(1)).keep();
        let mut guard = take(acquire, self.redlock, &names, ask, (options, by)).await?;
        // Tries the extension again for a while, because nodes that fail now may answer later.
        let until = by.min(guard.valid_until().saturating_sub(ttl / 2));
        while let Err(error) = guard.extend_async(ttl).await {
            let may_pass =
                matches!(&error, ExtendError::Unconfirmed(report) if !report.needs_operator());
            if !may_pass || until <= now() {
                return Err(unextended(error));
            }
            next_look().await;
        }
        Ok(guard)
    }

    /// Holds the lock until this time. Returns early if a signal arrives or the lock is lost.
    fn keep_until(&self, at: Instant, guard: &Guard<impl Holds>) {
        let over = async {
            while now() < at && guard.is_valid() {
                next_look().await;
            }
        };
        let _ = wait(over, || self.signals.check(&self.args.end)); // A signal ends the wait and is no failure.
    }
}

/// Fails if `/proc` does not list the children of this process, because this program then cannot find any descendant.
fn can_see_processes() -> Result<(), Failure> {
    let own = format!("/proc/self/task/{}/children", std::process::id());
    if std::fs::exists(own).unwrap_or(false) {
        return Ok(());
    }
    let what = "/proc does not list the children of this process: mount the /proc of this container, on a kernel \
                with CONFIG_PROC_CHILDREN; or use `shearline lock` and `shearline unlock`";
    Err(Failure::new(Status::Configuration, what))
}

/// Returns why `run` does not start the command, although it has taken the lock.
fn unextended(error: ExtendError) -> Failure {
    let (ExtendError::Unconfirmed(report) | ExtendError::Lost(report)) = &error else {
        return error.into();
    };
    let name = printable(report.resource().unwrap_or_default());
    let what = "it cannot be extended, so the command was not started";
    let what = format!("lock `{name}`: {what}: {report}");
    Failure::new(no_quorum(report), what)
}

/// Releases the lock, and returns how the run ended.
fn finish(args: &Args, guard: Guard<impl Holds>, ended: Ended) -> Result<Ending, Failure> {
    let name = args.title();
    let is_started = ended.started == Some(Ok(()));
    let fencing_token = guard.fencing_token();
    let extended = guard.health().last_report;
    let released = match ended.all {
        true => guard.unlock().map(drop),
        false => {
            drop(guard.into_lock()); // Other clients then wait until the lock expires.
            Ok(())
        }
    };
    let (outcome, status, why) = match (ended.started, ended.status, released) {
        _ if !ended.all => {
            let why = "programs of another user still run, so the lock is kept until it expires";
            ("lost", Status::Lost, why.to_owned())
        }
        (Some(Err(error)), ..) => return Err(cannot_run(args, error)),
        _ if ended.for_lock => {
            let why = format!("lost the lock {name}, so the command was ended");
            (
                "lost",
                Status::Lost,
                why + &got(extended).unwrap_or_default(),
            )
        }
        (.., Err(UnlockError::NotHeld(_))) => {
            let why = format!("the lock {name} was no longer held when the command ended");
            ("lost", Status::Lost, why)
        }
        (_, Some(status), Ok(())) => ("released", status.into(), String::new()),
        (_, Some(status), Err(_)) => ("release_unconfirmed", status.into(), String::new()),
        (_, None, _) => {
            if let (false, Some(signal)) = (is_started, ended.early) {
                return Err(Failure::by_signal(signal));
            }
            let what = if is_started { "killed" } else { "not started" };
            let why =
                format!("the command was {what}, because its watchdog had ended or was stopped");
            ("watchdog_ended", Status::Lost, why)
        }
    };
    if outcome == "released" {
        args.acquire.tell(&args.names(), "released the lock");
    }
    Ok(Ending {
        outcome,
        losses: u32::from(outcome == "lost"),
        started: is_started,
        command: ended.status,
        fencing_token,
        status,
        error: (!why.is_empty()).then(|| Failure::new(status, why)),
        told: ended.told,
        ..Ending::default()
    })
}

/// Returns a text with the nodes' last answers, for a lock that is lost or was at risk.
fn got(extended: Option<shearline::Report>) -> Option<String> {
    let report = extended?;
    let loss = report.loss().map(|loss| format!("; {loss}"));
    let loss = loss.unwrap_or_default();
    Some(format!("; the lock's last extension got {report}{loss}"))
}

/// Returns the failure for a command that cannot run. The exit status is 126 or 127, as with `env`.
fn cannot_run(args: &Args, error: i32) -> Failure {
    let error = io::Error::from_raw_os_error(error);
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let status = Status::NotStarted(126 + u8::from(is_missing));
    let command = args.command[0].to_string_lossy();
    let command = if command.is_empty() { "''" } else { &command };
    Failure::new(status, format_args!("cannot run {command}: {error}"))
}
