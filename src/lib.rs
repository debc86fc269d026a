//! `shearline`: a distributed lock over N independent Redis or Valkey masters.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

// Leaves: they import nothing of ours.
pub mod limits;
mod error;
mod resource;
mod time;

mod config;
mod slab;

pub mod quorum;
pub mod resp;
pub mod timer;

pub use error::{
    ConfigError, ExtendError, InvalidRequest, LinkError, LockError, NodeOutcome, NodeReport,
    Released, Report, ServerError, UnlockError, Unusable, UrlProblem,
};
pub use resource::Token;
pub use quorum::{Lock, LockId};
pub use time::Instant;
