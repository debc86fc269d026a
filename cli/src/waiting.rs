//! What a command says while it waits for a lock: for whom, or why no lock can be had.
//!
//! It says nothing in the first second. Then it asks the nodes who holds the lock, which changes nothing,
//! and writes a line to stderr: to a terminal again whenever that changes, elsewhere once. Too few answers may have
//! another reason later, so a refusal is then told elsewhere too.

use std::fmt;
use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use shearline::internals::now;
use shearline::{InspectError, Inspection, Instant, NodeOutcome, NodeReport, Redlock, Report};

use crate::failure::in_words_of_the_command;
use crate::inspect;
use crate::output::{self, listed, printable};

/// How long it says nothing, and how long it takes until it looks again.
const FIRST: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(3);

/// What is said of a lock that is free, and not granted.
const FREE: &str =
    "it is free, and was not granted yet; if that lasts, `shearline nodes` shows why";

/// A name, and what the nodes say of it.
type Told<'a> = (&'a [u8], Result<Inspection, InspectError>);

type Looking<'a> = Pin<Box<dyn Future<Output = Told<'a>> + 'a>>;

/// The wait for one lock.
pub(crate) struct Waiting<'a> {
    redlock: &'a Redlock,
    /// One, or several with one lock on all of them.
    names: &'a [&'a [u8]],
    /// Stderr is a terminal.
    is_terminal: bool,
    /// When it looks next. `None`: never.
    next: Option<Instant>,
    looking: Option<Looking<'a>>,
    said: Option<(&'a [u8], Reason)>,
    /// It was free at the last look.
    was_free: bool,
}

/// Why the lock is not had.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Reason {
    HeldBy(Vec<u8>),
    /// It was free at two looks, so it is rather the nodes that do not grant it than others that were first.
    Free,
    /// Several have it, or nobody: in words.
    NotByOne(String),
    NoQuorum,
    /// As before, and nodes have refused to answer.
    Refused,
}

/// When it may say something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Talk {
    /// Never.
    Nothing,
    /// To a person at the terminal.
    OnTerminal,
    /// To the terminal, and once into a file or a pipe.
    Always,
}

impl<'a> Waiting<'a> {
    /// It begins now.
    pub(crate) fn new(redlock: &'a Redlock, names: &'a [&'a [u8]], talk: Talk) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let talks = match talk {
            Talk::Nothing => false,
            Talk::OnTerminal => is_terminal,
            Talk::Always => true,
        };
        Self {
            redlock,
            names,
            is_terminal,
            next: talks.then(|| now().saturating_add(FIRST)),
            looking: None,
            said: None,
            was_free: false,
        }
    }

    /// Says what there is to say. To be called from time to time.
    pub(crate) fn look(&mut self, context: &mut Context<'_>) {
        if self.looking.is_none() && self.next.is_some_and(|next| next <= now()) {
            self.looking = Some(Box::pin(first_held(self.redlock, self.names)));
        }
        let Some(looking) = &mut self.looking else {
            return;
        };
        if let Poll::Ready((name, told)) = looking.as_mut().poll(context) {
            self.looking = None;
            self.next = Some(now().saturating_add(AGAIN));
            self.tell(name, &told);
        }
    }

    /// Says what is there, if it is no lock.
    pub(crate) async fn no_lock(&self) -> Option<String> {
        let (name, told) = first_held(self.redlock, self.names).await;
        let told = told.ok().filter(inspect::is_no_lock)?;
        Some(format!(
            "lock `{}`: {}",
            printable(name),
            inspect::state(&told)
        ))
    }

    fn tell(&mut self, name: &'a [u8], told: &Result<Inspection, InspectError>) {
        let is_free = told.as_ref().is_ok_and(Inspection::is_free);
        let was_free = mem::replace(&mut self.was_free, is_free);
        let (reason, text): (_, String) = match told {
            Ok(told) => match told.holder() {
                Some(holder) => (Reason::HeldBy(holder.owner.to_vec()), inspect::state(told)),
                // It can be had now, or will be told by the next look.
                None if is_free && !was_free => return,
                None if is_free => (Reason::Free, FREE.to_owned()),
                None => (Reason::NotByOne(inspect::state(told)), inspect::state(told)),
            },
            Err(error @ InspectError::NoQuorum(report)) => {
                (no_quorum(report), format!("{error:#}"))
            }
            // The wait for the lock itself ends with that.
            Err(_) => return,
        };
        let reason = (name, reason);
        if self.said.as_ref() == Some(&reason) {
            return;
        }
        let name = match is_free {
            true => listed(self.names),
            false => printable(name),
        };
        if self.is_terminal || self.said.is_none() || reason.1 == Reason::Refused {
            say(format_args!(
                "waiting for {name}: {}",
                in_words_of_the_command(&text)
            ));
        }
        if !self.is_terminal && reason.1 != Reason::NoQuorum {
            self.next = None;
        }
        self.said = Some(reason);
    }
}

/// Inspects the names one after the other, up to the first that is not free.
async fn first_held<'a>(redlock: &'a Redlock, names: &'a [&'a [u8]]) -> Told<'a> {
    let mut all = names.iter();
    loop {
        let name = all.next().expect("the last one is returned");
        let told = redlock.inspect_async(name).await;
        if all.len() == 0 || !told.as_ref().is_ok_and(Inspection::is_free) {
            return (name, told);
        }
    }
}

/// Returns why too few nodes have answered.
fn no_quorum(report: &Report) -> Reason {
    let refused = |node: &NodeReport| matches!(node.outcome, NodeOutcome::Refused(_));
    match report.nodes().iter().any(refused) {
        true => Reason::Refused,
        false => Reason::NoQuorum,
    }
}

fn say(text: impl fmt::Display) {
    output::complain(output::NOTE, text);
}
