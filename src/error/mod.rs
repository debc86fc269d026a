//! The errors of all operations, grouped by the person who can repair the cause.
//!
//! The types [`LockError`], [`ExtendError`] and [`UnlockError`] are for the operations of callers,
//! and [`OperatorError`](crate::OperatorError) is for the requests of operators. Errors that come from the nodes
//! contain a [`Report`] with each node's answer and how long it took. [`InvalidRequest`] and [`ConfigError`] report
//! mistakes of the caller before any I/O.
//!
//! `{}` shows a short message, for users. `{:#}` adds what each node said and what to do, for operators and logs.
//!
//! No error contains a credential or a whole token. Servers echo arguments in their error texts, so a [`ServerError`]
//! contains only the first word of a server's error.

mod config;
mod node;
mod operation;
mod operator;
mod report;
mod shown;
mod span;
mod tls;
mod told;

pub use config::ConfigError;
pub(crate) use config::{ConfigFault, UrlFault};
pub use node::{LinkError, LinkFault, ServerError, Unusable};
pub use operation::{ExtendError, InvalidRequest, LockError, Released, RequestFault, UnlockError};
pub use operator::TrustError;
pub(crate) use operator::TrustFault;
pub(crate) use report::{Asked, ends_by, names_scripts};
pub use report::{NodeOutcome, NodeReport, Report};
pub(crate) use shown::{Shown, said, words};
pub(crate) use span::Span;
#[cfg(feature = "tls")]
pub(crate) use tls::{Day, TlsFault, TlsPart, TlsProblem, TlsSetting};
pub(crate) use told::{Told, told};
