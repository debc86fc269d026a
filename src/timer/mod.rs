//! A hierarchical hashed timing wheel.
//!
//! The wheel arms, cancels and fires a timer in constant time, however many timers are armed. The scheme is from the
//! paper *Hashed and Hierarchical Timing Wheels* by Varghese and Lauck (SOSP 1987). The wheel has six levels of
//! sixty-four slots, and each slot is as wide as the whole level below it. A timer waits in the slot of its tick. When
//! the wheel comes to the slot of a timer, the timer moves down a level, until it fires from the lowest level.
//!
//! ```text
//! level 0   64 x 1 ms       reaches 64 ms
//! level 1   64 x 64 ms              4.1 s
//! level 2   64 x 4.1 s              4 min 22 s
//! level 3   64 x 4 min 22 s         4 h 40 min
//! level 4   64 x 4 h 40 min         12 d 10 h
//! level 5   64 x 12 d 10 h          795 d: 68,719,476,736 ms
//! ```
//!
//! A timer beyond the 2^36 ms of the top level also waits on the top level. The wheel checks this timer once in each
//! rotation of the top level, until the timer is due.
//!
//! # Guarantees
//!
//! * **Never early.** A timer armed for `at` does not fire at any `now` before `at`.
//! * **In order.** Timers fire by tick. Timers of one tick fire in the order in which they were armed.
//! * **No allocation** happens while the number of armed timers does not exceed its previous maximum.
//! * **No timer is lost** at the end of time: all sums saturate, and [`Instant::MAX`] is an ordinary time.
//!
//! # Not here
//!
//! The wheel has no clock, because time is an argument. The wheel does not decide whether a lock is still valid. The
//! tick of the wheel is a millisecond and rounds *up*, while validity is exact to the nanosecond and rounds *down*.
//!
//! [`Instant::MAX`]: crate::Instant::MAX

mod level;
#[cfg(any(test, fuzzing))]
pub(crate) mod model;
mod ring;
mod wheel;

pub use wheel::{TimerKey, Wheel};
