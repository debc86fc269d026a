//! The supervisor: takes the lock, has the command run, keeps the lock, releases it.

use std::fmt;
use std::future::{Future as _, poll_fn};
use std::io;
use std::mem;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shearline::held::Holds;
use shearline::internals::{check_resources, now};
use shearline::{ExtendError, Guard, Instant, InvalidRequest, LockOptions, Redlock, UnlockError};

use super::Args;
use super::deadline::{TTL_MIN, Timer};
use super::notice::Notice;
use super::report::{Ending, Exit, Outcome, Report};
use super::signals::Signals;
use super::supervision::{Ended, Supervision};
use super::wait_for;
use crate::failure::Failure;
use crate::pace::Pace;
use crate::status::Status;
use crate::taking::{self, Ask};

/// Runs the command under the lock.
pub(super) fn run(args: &Args) -> ExitCode {
    reported(args, |handle| attempt(args, handle))
}

/// Ends a run that cannot begin.
pub(super) fn in_vain(args: &Args, failure: Failure) -> ExitCode {
    reported(args, |_| Err(failure))
}

/// Writes the report of what `attempt` comes to, before its handle waits for nodes that are slow to release.
fn reported(
    args: &Args,
    attempt: impl FnOnce(&mut Option<Redlock>) -> Result<Ending, Failure>,
) -> ExitCode {
    let report = match args.report.as_deref().map(Report::open).transpose() {
        Ok(report) => report,
        Err(error) => {
            let error = format!(
                "cannot write the report: {error}; give --report a file that can be written, or the number of \
                 an open descriptor"
            );
            return Failure::usage(error).report();
        }
    };
    let mut handle = None;
    let mut ending = attempt(&mut handle).unwrap_or_else(failed);
    if let Some(report) = report
        && let Err(error) = report.write(&ending.line(&args.names()))
    {
        say(format_args!("cannot write the report: {error}"));
    }
    ending.tell();
    drop(handle);
    ending.exit()
}

/// An end before the command was started.
fn failed(failure: Failure) -> Ending {
    let outcome = match failure.status {
        Status::NotTaken | Status::Conflict(_) => Outcome::Held,
        Status::NoQuorum => Outcome::NoQuorum,
        Status::CannotRun | Status::NotFound => Outcome::NotStarted,
        Status::Success
        | Status::Failure
        | Status::Usage
        | Status::Lost
        | Status::Configuration
        | Status::Plugin(_)
        | Status::Signal(_) => Outcome::Failed,
    };
    let ending = Ending::before(outcome, Exit::Status(failure.status));
    let error = Some(failure);
    Ending { error, ..ending }
}

fn say(text: impl fmt::Display) {
    Failure::new(Status::Failure, text).report();
}

fn attempt(args: &Args, handle: &mut Option<Redlock>) -> Result<Ending, Failure> {
    let ttl = args.acquire.ttl;
    if ttl < TTL_MIN {
        let least = TTL_MIN.as_secs();
        return Err(Failure::usage(format!(
            "the ttl is too short to end the command in time: give {least}s or more"
        )));
    }
    let names = args.names();
    if (args.shared || args.permits.is_some()) && names.len() != 1 {
        return Err(Failure::usage(format_args!(
            "--shared and --permits take one name, and {} are given: {}",
            names.len(),
            args.title()
        )));
    }
    can_see_processes()?;
    let builder = args.connect.nodes.builder()?;
    let builder = args.acquire.builder(builder, std::process::id())?;
    // Before anything is sent: a strict guard writes markers when it connects.
    builder.config()?.check_request(names[0], ttl)?;
    check_resources(&names).map_err(InvalidRequest::from)?;
    // The first process of a container would not get what comes until then.
    let signals = Signals::catch().map_err(broken)?;
    let notice = Notice::new().map_err(broken)?;
    let by = args.acquire.by();
    let redlock = args.connect.connect(&builder, by)?;
    let redlock = &*handle.insert(redlock);
    let (mut pace, title) = (Pace::default(), args.title());
    let mut look = || {
        if !args.acquire.quiet {
            pace.look(redlock, &title);
        }
    };
    let mut once = |by| once_as_asked(args, (redlock, by), (&signals, &notice), &mut look);
    let (mut ending, mut goes_on) = once(by)?;
    while goes_on {
        ending.tell();
        match once(args.acquire.by()) {
            Ok((mut next, again)) => {
                next.started |= ending.started;
                (ending, goes_on) = (next, again);
            }
            Err(failure) => {
                // What the command has begun may be half done: that comes first.
                ending.error = Some(failure);
                break;
            }
        }
    }
    Ok(ending)
}

/// [`once`] with the lock, the shared lock or the permit that the arguments ask for.
fn once_as_asked(
    args: &Args,
    handle: (&Redlock, Instant),
    caught: (&Signals, &Arc<Notice>),
    look: &mut impl FnMut(),
) -> Result<(Ending, bool), Failure> {
    let (redlock, names) = (handle.0, args.names());
    let alone = |options: &LockOptions| redlock.lock_all_with_async(&names, options);
    let shared = |options: &LockOptions| redlock.lock_shared_with_async(names[0], options);
    if let Some(permits) = args.permits {
        let permit = |options: &LockOptions| redlock.permit_with_async(names[0], permits, options);
        return once(args, (&permit, |it| Some(it.slot())), handle, caught, look);
    }
    match args.shared {
        true => once(args, (&shared, |_| None), handle, caught, look),
        false => once(args, (&alone, |_| None), handle, caught, look),
    }
}

/// Returns the number of a permit.
type SlotOf<H> = fn(&Guard<H>) -> Option<u16>;

/// Takes the lock by that time and runs the command once. Returns how that ended, and whether that is to be done again.
fn once<H: Holds>(
    args: &Args,
    (ask, slot_of): (Ask<'_, H>, SlotOf<H>),
    handle: (&Redlock, Instant),
    (signals, notice): (&Signals, &Arc<Notice>),
    look: &mut impl FnMut(),
) -> Result<(Ending, bool), Failure> {
    let guard = match acquire(args, ask, handle, (signals, notice))? {
        Ok(guard) => guard,
        Err(signal) => {
            let ending = Ending::before(Outcome::Interrupted, Exit::by(signal));
            return Ok((ending, false));
        }
    };
    let at_least = now().saturating_add(args.at_least);
    let mut told = None;
    let slot = slot_of(&guard);
    let supervision = Supervision::start(args, (&guard, slot), signals, notice, &mut told);
    let ended = supervision.and_then(|supervision| supervision.run(look));
    let ended = ended.map_err(broken)?;
    if !ended.for_lock && ended.started == Some(Ok(())) {
        keep_until(at_least, &guard, args, signals).map_err(broken)?;
    }
    let goes_on = args.again && ended.for_lock && ended.all && !ended.is_done;
    let ending = finish(args, guard, ended)?;
    let ending = Ending {
        slot,
        told,
        ..ending
    };
    Ok((ending, goes_on))
}

/// Without `/proc`, with that of other processes, or without lists in it, no descendant could be found.
fn can_see_processes() -> Result<(), Failure> {
    let own = format!("/proc/self/task/{}/children", std::process::id());
    match std::fs::exists(own) {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(Failure::new(
            Status::Configuration,
            "/proc does not list the children of this process: mount the /proc of this container, on a kernel with \
             CONFIG_PROC_CHILDREN; or use `shearline lock` and `shearline unlock`",
        )),
    }
}

/// A failure of the system.
fn broken(error: io::Error) -> Failure {
    Failure::new(Status::Failure, error)
}

/// Waits for the lock, or for a signal, which it returns then.
fn acquire<H: Holds>(
    args: &Args,
    ask: Ask<'_, H>,
    handle: (&Redlock, Instant),
    (signals, notice): (&Signals, &Arc<Notice>),
) -> Result<Result<Guard<H>, i32>, Failure> {
    let mut acquiring = pin!(extended(args, ask, handle));
    let waker = Waker::from(Arc::clone(notice));
    let timer = Timer::new().map_err(broken)?;
    loop {
        notice.clear();
        if let Some(signal) = signals.take_end(&args.end) {
            return Ok(Err(signal));
        }
        if let Poll::Ready(result) = acquiring.as_mut().poll(&mut Context::from_waker(&waker)) {
            let guard = result?;
            // The command is not there yet: no other process ends for the signal.
            let Some(signal) = signals.take_end(&args.end) else {
                return Ok(Ok(guard));
            };
            // If no majority confirms that, the lock ends by itself.
            let _ = guard.unlock();
            return Ok(Err(signal));
        }
        timer
            .set(now().saturating_add(taking::LOOK))
            .map_err(broken)?;
        wait_for(&[notice.as_fd(), signals.as_fd(), timer.as_fd()]).map_err(broken)?;
    }
}

/// Takes the lock, and extends it once. A user of the nodes may take and release locks, and not extend them: the
/// command would be ended halfway.
async fn extended<H: Holds>(
    args: &Args,
    ask: Ask<'_, H>,
    (redlock, by): (&Redlock, Instant),
) -> Result<Guard<H>, Failure> {
    let (names, ttl) = (args.names(), args.acquire.ttl);
    // A little shorter: an extension that changes nothing needs no permission.
    let options = args.acquire.options(ttl - Duration::from_millis(1)).keep();
    let mut waiting = args.acquire.waiting(redlock, &names);
    let trusted = args.connect.trust.then_some(redlock);
    let taking = taking::take(ask, (options, by), trusted, &mut waiting);
    let mut guard = match taking.await {
        Ok(guard) => guard,
        Err(error) => return Err(args.acquire.failure(error, &waiting).await),
    };
    // Nodes that fail in this moment may be back in time.
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

/// Completes when it is polled the next time: it wakes nobody.
async fn next_look() {
    let mut was_polled = false;
    poll_fn(|_| match mem::replace(&mut was_polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Why the command is not started, although the lock was taken.
fn unextended(error: ExtendError) -> Failure {
    let (ExtendError::Unconfirmed(report) | ExtendError::Lost(report)) = &error else {
        return error.into();
    };
    let status = match report.needs_operator() {
        true => Status::Configuration,
        false => Status::NoQuorum,
    };
    let what = "the lock cannot be extended, so the command was not started";
    Failure::new(status, format_args!("{what}: {report}"))
}

/// Keeps the lock until then. A signal, or the loss of the lock, ends that early.
fn keep_until(
    at: Instant,
    guard: &Guard<impl Holds>,
    args: &Args,
    signals: &Signals,
) -> io::Result<()> {
    let timer = Timer::new()?;
    while now() < at && guard.is_valid() && signals.take_end(&args.end).is_none() {
        timer.set(at.min(now().saturating_add(Duration::from_millis(500))))?;
        wait_for(&[timer.as_fd(), signals.as_fd()])?;
    }
    Ok(())
}

/// Releases the lock, and says how all ended.
fn finish(args: &Args, guard: Guard<impl Holds>, ended: Ended) -> Result<Ending, Failure> {
    let name = args.title();
    let mut ending = Ending {
        outcome: Outcome::Lost,
        started: ended.started == Some(Ok(())),
        command: ended.status,
        fencing_token: guard.fencing_token(),
        slot: None,
        exit: Exit::Status(Status::Lost),
        error: None,
        told: None,
    };
    if !ended.all {
        // Others are kept out for as long as can be.
        drop(guard.into_lock());
        ending.error = lost("programs of another user still run, and the lock ends by itself");
        return Ok(ending);
    }
    let extended = guard.health().last_report;
    let released = guard.unlock();
    if let Some(Err(error)) = ended.started {
        return Err(cannot_run(args, &io::Error::from_raw_os_error(error)));
    }
    match (released, ended.status) {
        _ if ended.for_lock => {
            let got = extended.map(got).unwrap_or_default();
            ending.error = lost(format_args!(
                "lost the lock {name}: the command was ended{got}"
            ));
        }
        (Err(UnlockError::NotHeld(_)), _) => {
            ending.error = lost(format_args!(
                "the lock {name} was not held any more at the end"
            ));
        }
        (_, None) => {
            if let (false, Some(signal)) = (ending.started, ended.early) {
                return Ok(Ending::before(Outcome::Interrupted, Exit::by(signal)));
            }
            let what = match ending.started {
                true => "killed",
                false => "not started",
            };
            ending.error = lost(format_args!(
                "the command was {what}, because its watchdog had ended or was stopped"
            ));
            ending.outcome = Outcome::WatchdogEnded;
        }
        (released, Some(status)) => {
            ending.outcome = match released {
                Ok(_) => Outcome::Released,
                Err(_) => Outcome::Unconfirmed,
            };
            ending.exit = Exit::As(status);
        }
    }
    Ok(ending)
}

fn lost(why: impl fmt::Display) -> Option<Failure> {
    Some(Failure::new(Status::Lost, why))
}

/// Returns what a lock that is lost, or was at risk, got last.
fn got(report: shearline::Report) -> String {
    let loss = report.loss().map(|loss| format!("; {loss}"));
    format!(
        "; its last extension got {report}{}",
        loss.unwrap_or_default()
    )
}

/// The status of a command that does not exist is that of `env`.
fn cannot_run(args: &Args, error: &io::Error) -> Failure {
    let command = args.command.first().map(|it| it.to_string_lossy());
    let status = match error.kind() == io::ErrorKind::NotFound {
        true => Status::NotFound,
        false => Status::CannotRun,
    };
    let command = command.filter(|it| !it.is_empty());
    let command = command.unwrap_or("''".into());
    Failure::new(status, format_args!("cannot run {command}: {error}"))
}
