//! Items that are public only for the command, the simulator, the benches, the fuzz targets and the tests.

use crate::engine::Wake;
use crate::error::LinkError;

#[cfg(feature = "std")]
pub use crate::clock::now;
#[cfg(feature = "embedded")]
pub use crate::embedded::flavour::{Flavour, Refused};
#[cfg(feature = "embedded")]
pub use crate::embedded::session::Session;
#[cfg(feature = "embedded")]
pub use crate::embedded::store::Store;
pub use crate::engine::contract::{Cause, Load};
#[cfg(any(test, fuzzing))]
pub use crate::engine::fuzz::fuzz_engine;
#[cfg(feature = "internals")]
pub use crate::engine::inside::{all_open, open_work, waiting_work};
pub use crate::error::{LinkFault, RequestFault};
pub use crate::resource::{BARRIER_KEY, FLOOR_KEY, MARKER_KEY, check_resources};
#[cfg(any(test, fuzzing))]
pub use crate::resp::fuzz::{fuzz_decode_any, fuzz_decode_torn, fuzz_roundtrip};
#[cfg(any(test, fuzzing))]
pub use crate::timer::model::fuzz_wheel;
pub use crate::timer::{TimerKey, Wheel};

#[doc(hidden)]
impl Wake {
    /// Returns the cause of the wake-up.
    #[must_use]
    pub const fn cause(self) -> Cause {
        self.0
    }
}

#[doc(hidden)]
impl LinkError {
    /// Returns the fault behind the error.
    #[must_use]
    pub const fn fault(self) -> LinkFault {
        self.0
    }
}

/// Non-public parts of the codec, such as whole replies and writers for servers.
pub mod resp {
    pub use crate::resp::all::*;
}

/// All bounds of the library.
pub mod limits {
    pub use crate::limits::*;
}

/// The scripts that nodes run, with their texts and digests.
#[cfg(feature = "embedded")]
pub mod scripts {
    use crate::node;

    /// The text of a script and its digest.
    pub type Script = (&'static str, &'static str);

    macro_rules! scripts {
        ($($name:ident),+ $(,)?) => {$(
            /// See [`scripts`](self).
            pub const $name: Script = (node::$name.text, node::$name.sha1);
        )+};
    }

    scripts! {
        RELEASE, RELEASE_EACH, EXTEND, EXTEND_EACH, CONFIRM, INSPECT, OVERWRITE, JOIN,
        CHECKED_ACQUIRE, CHECKED_EXTEND, CHECKED_CONFIRM,
        TAKE_SEVERAL, EXTEND_SEVERAL, CONFIRM_SEVERAL, RELEASE_SEVERAL,
        TAKE_SHARED, TAKE_SLOT, MOVE_SLOT, EXTEND_MEMBER, CONFIRM_MEMBER, RELEASE_MEMBER,
        LEAVE_INTENT, TAKE_SHARED_FENCED, TAKE_SLOT_FENCED, RAISE_MEMBER,
        TAKE_FENCED, RAISE_FENCED, SET_FLOOR, LOOK_AT_FLOOR, REPAIR_FLOOR, COUNT_COUNTERS,
        LIST_NAMES,
    }
}
