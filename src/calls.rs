//! The code that all handles share: it begins an operation for a call, and turns the outcome into the result of the
//! call.
//!
//! A call begins an operation with the engine, waits, and returns the outcome. [`LocalRedlock`](crate::LocalRedlock)
//! and [`Redlock`](crate::Redlock) wait in different ways.

use alloc::string::String;
use alloc::vec::Vec;

use crate::clock;
use crate::engine::breaking::{self, Broken};
use crate::engine::inspection::Inspection;
use crate::engine::operators::OperatorError;
use crate::engine::{Engine, Event, ListedNames, NodeId, Request, RoundId, prolong};
use crate::error::{
    ExtendError, LockError, NodeOutcome, Released, Report, TrustFault, UnlockError,
};
use crate::quorum::Lock;
use crate::time::Instant;
use crate::trace::Operation;

/// The outcome of an operation, or a report that no outcome came in time.
pub(crate) type Awaited = Result<Event, Report>;

/// The result of trusting nodes, and the nodes that still have no counter floor, each with the reason.
pub(crate) type Trusted<T> = (T, Vec<(NodeId, NodeOutcome)>);

// ----- beginning ------------------------------------------------------------------------------

/// Begins to take a lock. A request for a fenced lock proposes the current time as the fencing token.
#[inline]
pub(crate) fn acquire(
    engine: &mut Engine,
    now: Instant,
    request: &Request<'_>,
) -> Result<RoundId, LockError> {
    if request.options.is_fenced() {
        engine.set_wall_clock(now, clock::wall());
    }
    engine.acquire(now, request)
}

/// Trusts the node whose server is behind `address`. The counter floor of the node for fencing tokens is based on the
/// current time. If the node needs a floor, also returns the operation that writes the floor.
pub(crate) fn trust(
    engine: &mut Engine,
    address: &str,
    run_id: &str,
) -> Result<(bool, Option<RoundId>), OperatorError> {
    let node = engine.nodes().at(address).ok_or(TrustFault::UnknownNode)?;
    let now = clock::now();
    engine.set_wall_clock(now, clock::wall());
    Ok(engine.trust_for(now, node, run_id)?)
}

/// Calls [`trust`] for all servers that are connected now.
pub(crate) fn trust_all(engine: &mut Engine) -> (Vec<(NodeId, String)>, Option<RoundId>) {
    let now = clock::now();
    engine.set_wall_clock(now, clock::wall());
    engine.trust_all(now)
}

// ----- finishing ------------------------------------------------------------------------------

/// Defines functions that turn the outcome of an operation into the result of its call. Each function has its own error
/// for a call without an outcome.
macro_rules! results {
    ($($name:ident: $event:ident => $success:ty, $error:ident, $unanswered:expr;)*) => {$(
        pub(crate) fn $name(outcome: Awaited) -> Result<$success, $error> {
            match outcome {
                Ok(Event::$event { result, .. }) => result,
                Ok(other) => unreachable!("the outcome of another operation: {other:?}"),
                Err(report) => Err($unanswered(report)),
            }
        }
    )*};
}

results! {
    acquired: Acquired => Lock, LockError, LockError::NoQuorum;
    released: Released => Released, UnlockError, UnlockError::Unconfirmed;
    inspected: Inspected => Inspection, OperatorError, OperatorError::NoQuorum;
    reinitialised: Reinitialised => (), OperatorError, OperatorError::Unconfirmed;
}

/// Returns the result of breaking the lock that was `seen`.
pub(crate) fn broken(outcome: Awaited, seen: &Inspection) -> Result<Broken, OperatorError> {
    breaking::finish(outcome.map_err(OperatorError::Unconfirmed)?, seen)
}

/// Returns the result of an extension or a confirmation, and updates `lock`. Without an outcome the lock does not
/// change.
pub(crate) fn prolonged(
    operation: &Operation,
    lock: &mut Lock,
    outcome: Awaited,
) -> Result<(), ExtendError> {
    match outcome {
        Ok(outcome) => prolong(lock, outcome, clock::now)?,
        Err(_) if lock.has_known_end() && !lock.is_valid() => {
            return Err(ExtendError::Expired);
        }
        Err(report) => return Err(ExtendError::Unconfirmed(report)),
    }
    operation.has(lock);
    Ok(())
}

/// Returns the number of counters on each node.
pub(crate) fn counted<E>(outcome: Result<Awaited, E>) -> Vec<(u64, Option<NodeOutcome>)> {
    match outcome {
        Ok(Ok(Event::CountersCounted { counters, .. })) => counters,
        _ => Vec::new(),
    }
}

/// Returns the names on each node.
pub(crate) fn listed(outcome: Awaited) -> Result<Vec<ListedNames>, OperatorError> {
    match outcome {
        Ok(Event::NamesListed { names, .. }) => Ok(names),
        Ok(other) => unreachable!("the outcome of another operation: {other:?}"),
        Err(report) => Err(OperatorError::NoQuorum(report)),
    }
}

/// Returns the nodes that did not get a counter floor, according to this outcome.
pub(crate) fn without_floors(outcome: Awaited) -> Vec<(NodeId, NodeOutcome)> {
    match outcome {
        Ok(Event::FloorsGiven { without, .. }) => without,
        Ok(other) => unreachable!("the outcome of another operation: {other:?}"),
        Err(report) => {
            let outcomes = report.nodes().iter().map(|node| node.outcome);
            (0..).map(NodeId::new).zip(outcomes).collect()
        }
    }
}

/// Returns the result of trusting one node.
pub(crate) fn with_floor((kept, without): Trusted<bool>) -> Result<bool, OperatorError> {
    match without.first() {
        Some((_, outcome)) => Err(TrustFault::NoFloor { outcome: *outcome }.into()),
        None => Ok(kept),
    }
}

/// Returns the result of trusting all nodes: the run_ids of the trusted nodes, without nodes that still need a counter
/// floor.
pub(crate) fn with_floors((trusted, without): Trusted<Vec<(NodeId, String)>>) -> Vec<String> {
    let has_none = |node: NodeId| without.iter().any(|(other, _)| *other == node);
    let trusted = trusted.into_iter().filter(|(node, _)| !has_none(*node));
    trusted.map(|(_, run_id)| run_id).collect()
}
