//! `shearline`: a distributed lock over N independent Redis or Valkey masters.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

// Leaves: they import nothing of ours.
mod error;
pub mod limits;
mod resource;
mod time;

mod config;
mod slab;

pub mod engine;
mod node;

pub mod quorum;
pub mod resp;
pub mod timer;

#[cfg(feature = "std")]
mod driver;
#[cfg(feature = "std")]
mod local;
#[cfg(feature = "std")]
mod shared;

#[cfg(feature = "embedded")]
pub mod embedded;

pub use config::{Address, Builder, Config, Host, LockOptions, NodeConfig, RestartGuard, Retry};
#[cfg(feature = "std")]
pub use driver::{BuildError, Driver, DriverWaker, FromBytesError};
pub use error::{
    ConfigError, ExtendError, InvalidRequest, LinkError, LockError, NodeOutcome, NodeReport,
    Released, Report, ServerError, UnlockError, Unusable, UrlProblem,
};
#[cfg(feature = "std")]
pub use local::LocalRedlock;
pub use quorum::{Lock, LockId};
pub use resource::Token;
#[cfg(feature = "std")]
pub use shared::{Acquiring, Building, LockGuard, Lost, Redlock};
pub use time::Instant;
