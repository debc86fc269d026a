//! What a command says while it waits for a lock: who holds it, or why there is none to get.
//!
//! It says nothing in the first second. Then it asks the nodes who holds the lock, which changes nothing, and writes a
//! line to stderr. On a terminal it writes another line whenever the holder changes. Elsewhere it asks no more after
//! that line, unless too few nodes have answered: the reason may change later.

use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anstream::adapter::strip_str;
use shearline::internals::now;
use shearline::{Inspection, Instant, NodeOutcome, OperatorError, Redlock};

use crate::failure::in_words;
use crate::inspect;
use crate::output::{self, listed, printable};

/// The time before the first look, and between two looks.
const FIRST: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(3);

/// The text for a lock that is free but was not granted.
const FREE: &str =
    "it is free, and was not granted yet; if that lasts, `shearline nodes` shows why";

/// A name, and what the nodes say about it.
type Told<'a> = (&'a [u8], Result<Inspection, OperatorError>);

type Looking<'a> = Pin<Box<dyn Future<Output = Told<'a>> + 'a>>;

/// The wait for one lock.
pub(crate) struct Waiting<'a> {
    redlock: &'a Redlock,
    /// One name, or several with one lock on all of them.
    names: &'a [&'a [u8]],
    /// Stderr is a terminal.
    is_terminal: bool,
    /// The time of the next look. `None` if there is none.
    next: Option<Instant>,
    looking: Option<Looking<'a>>,
    /// What the last line was about: the name, and the owner or another reason.
    said: Option<(&'a [u8], String)>,
    /// Whether the lock was free at the last look.
    was_free: bool,
}

impl<'a> Waiting<'a> {
    /// Begins the wait now. If it never `talks`, it does not ask the nodes.
    pub(crate) fn new(redlock: &'a Redlock, names: &'a [&'a [u8]], talks: bool) -> Self {
        Self {
            redlock,
            names,
            is_terminal: io::stderr().is_terminal(),
            next: talks.then(|| now().saturating_add(FIRST)),
            looking: None,
            said: None,
            was_free: false,
        }
    }

    /// Writes a line if there is something new. Call it from time to time.
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

    /// Returns who holds the lock, or what else is there.
    pub(crate) async fn held(&self) -> Option<String> {
        let (name, told) = first_held(self.redlock, self.names).await;
        let told = told.ok().filter(inspect::is_known)?;
        let never_ends = told
            .holder()
            .is_some_and(|it| it.valid_for == Duration::MAX);
        let advice = match never_ends {
            true => "; if its holder is gone, end it with `shearline break --now`",
            false => "",
        };
        let state = inspect::state(&told);
        let lock = match self.names {
            [_] => format!("lock `{}`:", printable(name)),
            all => format!("lock on {}: `{}`:", listed(all), printable(name)),
        };
        let text = format!("{lock} {state}{advice}");
        Some(strip_str(&text).to_string())
    }

    fn tell(&mut self, name: &'a [u8], told: &Result<Inspection, OperatorError>) {
        let is_free = told.as_ref().is_ok_and(Inspection::is_free);
        let was_free = mem::replace(&mut self.was_free, is_free);
        let (reason, text, may_change) = match told {
            // The lock may be granted now. If it is free at two looks in a row, other clients are probably not faster;
            // the nodes do not grant it.
            Ok(_) if is_free && !was_free => return,
            Ok(_) if is_free => (String::new(), FREE.to_owned(), false),
            Ok(told) => {
                let state = inspect::state(told);
                let owner = told.holder().map(|holder| inspect::by(&holder.owner));
                (owner.unwrap_or_else(|| state.clone()), state, false)
            }
            Err(error @ OperatorError::NoQuorum(report)) => {
                let mut outcomes = report.nodes().iter().map(|node| &node.outcome);
                let is_refused = outcomes.any(|it| matches!(it, NodeOutcome::Refused(_)));
                (is_refused.to_string(), format!("{error:#}"), !is_refused)
            }
            // The wait for the lock itself will fail with this error.
            Err(_) => return,
        };
        let reason = Some((name, reason));
        if self.said != reason {
            let name = match is_free {
                true => listed(self.names),
                false => printable(name),
            };
            let line = format!("waiting for {name}: {}", in_words(text));
            output::complain(output::NOTE, line);
            self.said = reason;
        }
        if !self.is_terminal && !may_change {
            self.next = None;
        }
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
