//! (skeleton: the signatures that the driver is written against)
mod contract;
pub use contract::*;
use core::time::Duration;
use crate::config::Config;
use crate::error::{ExtendError, LockError};
use crate::quorum::Lock;
use crate::time::Instant;

#[derive(Debug)]
pub struct Engine {}

impl Engine {
    pub fn new(_config: &Config, _seed: [u8; 32], _start: Instant) -> Self { unimplemented!() }
    pub fn acquire(&mut self, _now: Instant, _request: &Request<'_>) -> Result<RoundId, LockError> { unimplemented!() }
    pub fn extend(&mut self, _now: Instant, _lock: &Lock, _ttl: Duration) -> Result<RoundId, ExtendError> { unimplemented!() }
    pub fn release(&mut self, _now: Instant, _lock: Lock) -> RoundId { unimplemented!() }
    /// Releases with nobody waiting for the outcome (dropped guards).
    pub fn give_back(&mut self, _now: Instant, _lock: Lock) { unimplemented!() }
    /// Hands the lock out of this engine: releases go at once behind each of its SETs still unanswered; no more Expired for it.
    pub fn detach(&mut self, _now: Instant, _lock: Lock) -> Lock { unimplemented!() }
    /// Takes a lock of another engine or process under its care: Expired is told for it; gives it a new id. Never invents validity.
    pub fn adopt(&mut self, _now: Instant, _lock: Lock) -> Lock { unimplemented!() }
    pub fn cancel(&mut self, _now: Instant, _round: RoundId) { unimplemented!() }
    pub fn handle(&mut self, _now: Instant, _input: Input<'_>) { unimplemented!() }
    pub fn poll(&mut self, _now: Instant) -> Option<Output<'_>> { unimplemented!() }
    pub fn poll_timeout(&self) -> Option<(Instant, Wake)> { unimplemented!() }
    pub fn nodes(&self) -> usize { unimplemented!() }
    pub fn quorum(&self) -> usize { unimplemented!() }
    pub fn node_state(&self, _node: NodeId) -> NodeState { unimplemented!() }
    pub fn load(&self) -> Load { unimplemented!() }
}
