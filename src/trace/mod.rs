//! The spans and events of the feature `tracing`. The page [`manual::tracing`](crate::manual::tracing) lists them.
//!
//! An [`Operation`] is the span of one operation, such as taking a lock. A [`Tracer`] creates the spans of a handle,
//! and turns the notices of the engine into events.
//!
//! # Guarantees
//!
//! * **A subscriber is user code.** A subscriber is called without the mutex of the engine, by a thread that has
//!   neither the wire nor the poller. The I/O thread emits the events of a shared handle, in the same way as it calls
//!   wakers.
//! * **Without an enabled subscriber, nothing is formatted, hashed or timed.**
//! * **A subscriber gets no token and no credential**, and gets names of resources only if the program asks for them.
//!
//! # Not here
//!
//! The module `engine::notices` decides what to report.

mod outcome;
#[cfg(all(test, feature = "embedded"))]
mod tests;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::future::{Future, poll_fn};
use core::hash::BuildHasher;
use core::pin::pin;
use core::task::Waker;
use core::time::Duration;
use std::hash::RandomState;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing::dispatcher::{self, Dispatch};
use tracing::field::DisplayValue;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::NoSubscriber;
use tracing::{Level, Span, debug_span, event, field};

use crate::clock;
use crate::config::Config;
use crate::engine::notices::{Notice, Queue};
use crate::engine::{Engine, NodeId, Request};
use crate::quorum::Lock;
use crate::time::Instant;

pub(crate) use outcome::{Failure, Success};

/// The target of all spans and events.
const TARGET: &str = "shearline";

/// Returns an operation with a span of this name. The fields after `;` are recorded with the outcome.
macro_rules! operation {
    ($name:literal, $($field:ident = $value:expr),*; $($later:ident),*) => {
        Operation::new(debug_span!(
            target: TARGET,
            $name,
            $($field = $value,)*
            outcome = field::Empty,
            $($later = field::Empty,)*
            elapsed_us = field::Empty,
        ))
    };
}

/// Creates the spans and events of one handle.
#[derive(Debug)]
pub(crate) struct Tracer(Arc<Outbox>);

/// The data that the events of one handle need, and the events that are not emitted yet.
#[derive(Debug)]
struct Outbox {
    labels: Box<[Arc<str>]>,
    shows_names: bool,
    /// The prefix of all names of the handle.
    prefix: Box<[u8]>,
    /// The subscriber of the thread that built the handle, if that thread had one.
    dispatch: Option<Dispatch>,
    queue: Mutex<Queue>,
}

/// The span of one operation. The span ends with an outcome. An operation that is dropped without an outcome was
/// cancelled.
#[derive(Debug)]
pub(crate) struct Operation {
    span: Span,
    since: Instant,
    is_open: bool,
}

/// The number of attempts of an acquisition, for the thread or task that waits for the lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts(u32);

/// A resource in the form that spans and events use.
enum Shown<'a> {
    Name(Cow<'a, [u8]>),
    Hash(Cow<'a, [u8]>),
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        static KEYS: OnceLock<RandomState> = OnceLock::new();
        match self {
            Self::Name(name) => name.escape_ascii().fmt(f),
            Self::Hash(name) => {
                let hash = KEYS.get_or_init(RandomState::new).hash_one(name);
                write!(f, "{hash:016x}")
            }
        }
    }
}

/// Makes `engine` check its nodes for changes, if a subscriber is enabled.
pub(crate) fn look(engine: &mut Engine, now: Instant) {
    if LevelFilter::INFO <= LevelFilter::current() {
        let (notices, nodes) = engine.notices();
        notices.look(now, nodes);
    }
}

impl Tracer {
    pub(crate) fn new(config: &Config) -> Self {
        let dispatch = dispatcher::get_default(Dispatch::clone);
        let labels = config.nodes().iter().map(|node| Arc::clone(node.label()));
        Self(Arc::new(Outbox {
            labels: labels.collect(),
            shows_names: config.trace_resources(),
            prefix: config.key_prefix().into(),
            dispatch: Some(dispatch).filter(|dispatch| !dispatch.is::<NoSubscriber>()),
            queue: Mutex::default(),
        }))
    }

    // ----- operations -----------------------------------------------------------------------

    pub(crate) fn acquire(&self, request: &Request<'_>) -> Operation {
        let names = request.resources();
        operation!("acquire",
            resource = names.first().map(|name| self.0.asked(name)),
            resources = names.len() as u64,
            ttl_ms = millis(request.options.ttl());
            granted, attempts)
    }

    pub(crate) fn extend(&self, lock: &Lock, ttl: Duration) -> Operation {
        let ttl = millis(ttl);
        operation!("extend", resource = self.0.shown(lock.resource()), ttl_ms = ttl; granted)
    }

    pub(crate) fn confirm(&self, lock: &Lock) -> Operation {
        operation!("confirm", resource = self.0.shown(lock.resource()); granted)
    }

    pub(crate) fn release(&self, lock: &Lock) -> Operation {
        operation!("release", resource = self.0.shown(lock.resource()); deleted)
    }

    pub(crate) fn inspect(&self, resource: &[u8]) -> Operation {
        operation!("inspect", resource = self.0.asked(resource);)
    }

    pub(crate) fn break_lock(&self, resource: &[u8]) -> Operation {
        operation!("break", resource = self.0.asked(resource);)
    }

    pub(crate) fn reinit(&self) -> Operation {
        operation!("reinit",;)
    }

    // ----- events ---------------------------------------------------------------------------

    /// Takes the notices of `engine`. If there are notices, returns a waker that emits them to the subscriber.
    pub(crate) fn collect(&self, engine: &mut Engine) -> Option<Waker> {
        let (notices, _) = engine.notices();
        if notices.queue.is_empty() {
            return None;
        }
        self.0.lock().append(&mut notices.queue);
        Some(Waker::from(Arc::clone(&self.0)))
    }

    /// Emits the notices of `engine` on this thread.
    pub(crate) fn emit(&self, engine: &mut Engine) {
        let (notices, _) = engine.notices();
        if !notices.queue.is_empty() {
            self.0.emit(core::mem::take(&mut notices.queue));
        }
    }
}

impl Wake for Outbox {
    fn wake(self: Arc<Self>) {
        let notices = core::mem::take(&mut *self.lock());
        match &self.dispatch {
            Some(dispatch) => dispatcher::with_default(dispatch, || self.emit(notices)),
            None => self.emit(notices),
        }
    }
}

impl Outbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the key of a caller's `name`, in the form that spans and events use.
    fn asked<'a>(&self, name: &'a [u8]) -> DisplayValue<Shown<'a>> {
        match self.prefix.is_empty() {
            true => self.shown(name),
            false => self.shown([&self.prefix, name].concat()),
        }
    }

    fn shown<'a>(&self, name: impl Into<Cow<'a, [u8]>>) -> DisplayValue<Shown<'a>> {
        let name = name.into();
        field::display(match self.shows_names {
            true => Shown::Name(name),
            false => Shown::Hash(name),
        })
    }

    fn label(&self, node: NodeId) -> &str {
        self.labels.get(node.index()).map_or("", |label| label)
    }

    fn emit(&self, mut notices: Queue) {
        while let Some(notice) = notices.pop() {
            self.emit_one(&notice);
        }
        if notices.dropped != 0 {
            event!(name: "dropped", target: TARGET, Level::WARN, events = notices.dropped,
                "the subscriber was too slow, so events were dropped");
        }
    }

    fn emit_one(&self, notice: &Notice) {
        match notice {
            Notice::Restart(node) => {
                event!(name: "restart", target: TARGET, Level::INFO, node = self.label(*node),
                    "another process answers as the node: it has restarted");
            }
            Notice::Quarantine(node, left) => {
                event!(name: "quarantine", target: TARGET, Level::INFO, node = self.label(*node),
                    left_ms = millis(*left),
                    "the answers of the node do not count: it may have forgotten locks");
            }
            Notice::QuarantineEnd(node) => {
                event!(name: "quarantine_end", target: TARGET, Level::INFO, node = self.label(*node),
                    "the answers of the node count again");
            }
            Notice::ClockStep(node, steps) => {
                event!(name: "clock_step", target: TARGET, Level::WARN, node = self.label(*node),
                    steps = *steps,
                    "the clock of the node was stepped: its keys may have ended early");
            }
            Notice::Debt(node, debts) => {
                event!(name: "debt", target: TARGET, Level::WARN, node = self.label(*node),
                    debts = *debts as u64,
                    "the node is owed releases that could not be sent");
            }
            Notice::DebtPaid(node) => {
                event!(name: "debt_paid", target: TARGET, Level::INFO, node = self.label(*node),
                    "the node is owed no release any more");
            }
            Notice::Loss {
                resource,
                owner,
                reason,
            } => {
                let owner = (!owner.is_empty()).then(|| field::display(owner.escape_ascii()));
                event!(name: "loss", target: TARGET, Level::WARN, resource = self.shown(&**resource),
                    owner, reason = *reason,
                    "a lock that was held is lost");
            }
        }
    }
}

impl Operation {
    fn new(span: Span) -> Self {
        let is_open = !span.is_disabled();
        let since = match is_open {
            true => clock::now(),
            false => Instant::ZERO,
        };
        Self {
            span,
            since,
            is_open,
        }
    }

    /// Runs `part` of the operation inside the span.
    pub(crate) fn enter<T>(&self, part: impl FnOnce() -> T) -> T {
        self.span.in_scope(part)
    }

    /// Runs `part` of the operation. Every poll of `part` is inside the span.
    pub(crate) async fn drive<F: Future>(&self, part: F) -> F::Output {
        let mut part = pin!(part);
        poll_fn(|context| self.enter(|| part.as_mut().poll(context))).await
    }

    /// Runs the rest of the operation inside the span, and records the outcome that it returns.
    pub(crate) fn run<T: Success, E: Failure>(
        mut self,
        rest: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let outcome = self.span.in_scope(|| rest(&self));
        if self.is_open {
            match &outcome {
                Ok(success) => success.record(&self.span),
                Err(failure) => {
                    if let Some(report) = failure.report() {
                        self.span.record("granted", report.granted() as u64);
                        self.span.record("attempts", report.tries());
                    }
                }
            }
            self.end(outcome.as_ref().err().map_or("ok", E::word));
        }
        outcome
    }

    /// Releases the lock of the operation with `give_back`, which does not wait for answers.
    pub(crate) fn drop_with(mut self, give_back: impl FnOnce()) {
        self.span.in_scope(give_back);
        self.end("dropped");
    }

    /// Ends the operation with `error`, because the operation was refused at its beginning.
    pub(crate) fn fail<E: Failure>(mut self, error: E) -> E {
        self.end(error.word());
        error
    }

    /// Records how many nodes have the lock after an extension or a confirmation.
    pub(crate) fn has(&self, lock: &Lock) {
        if self.is_open {
            self.span.record("granted", lock.voters().len() as u64);
        }
    }

    /// Records the number of attempts.
    pub(crate) fn made(&self, attempts: Attempts) {
        if self.is_open {
            self.span.record("attempts", attempts.0);
        }
    }

    fn end(&mut self, outcome: &'static str) {
        if core::mem::take(&mut self.is_open) {
            let elapsed = clock::now().saturating_since(self.since);
            self.span.record("outcome", outcome);
            self.span.record("elapsed_us", micros(elapsed));
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.end("cancelled");
    }
}

impl Attempts {
    /// Returns the attempts of the acquisition whose outcome `engine` returned last.
    pub(crate) fn of(engine: &mut Engine) -> Self {
        Self(engine.notices().0.attempts)
    }
}

fn millis(span: Duration) -> u64 {
    span.as_millis().try_into().unwrap_or(u64::MAX)
}

fn micros(span: Duration) -> u64 {
    span.as_micros().try_into().unwrap_or(u64::MAX)
}
