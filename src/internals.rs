//! What is public for the simulator, the benches and the fuzz targets only.

#[cfg(feature = "embedded")]
pub use crate::embedded::node::Options;
#[cfg(feature = "embedded")]
pub use crate::embedded::session::Session;
#[cfg(feature = "embedded")]
pub use crate::embedded::state::{Flavour, Refused};
#[cfg(feature = "embedded")]
pub use crate::embedded::store::Store;
pub use crate::engine::contract::Load;
#[cfg(any(test, fuzzing))]
pub use crate::engine::fuzz::fuzz_engine;
#[cfg(any(test, fuzzing))]
pub use crate::resp::fuzz::{fuzz_decode_any, fuzz_decode_torn, fuzz_roundtrip};
#[cfg(any(test, fuzzing))]
pub use crate::timer::model::fuzz_wheel;
pub use crate::timer::{TimerKey, Wheel};

/// Whole values, encoders for servers, and more of the codec.
pub mod resp {
    pub use crate::resp::all::*;
}

/// Every bound that the library keeps.
pub mod limits {
    pub use crate::limits::*;
}
