//! Elections: one leader at a time, and others who see which.
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::Redlock;
//!
//! # fn plan(term: u64) -> bool { false }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//!
//! // A candidate waits until it leads, and says under which address it can be reached.
//! let leadership = redlock.campaign("scheduler", "10.0.0.7:8080", Duration::from_secs(5))?;
//! let lost = leadership.lost();
//! while !lost.is_lost() && plan(leadership.term()) {}
//! leadership.resign()?; // The next candidate leads at once.
//!
//! // Everybody else asks who leads, and is told of each change.
//! let mut observer = redlock.observe("scheduler")?;
//! while let Some(leader) = observer.next(Duration::MAX) {
//!     match leader {
//!         Some(leader) => println!("{} leads", leader.owner.escape_ascii()),
//!         None => println!("there is no leader"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Leadership is a lock on the name of the election, [kept](crate::LockOptions::keep) and
//! [fenced](crate::LockOptions::fenced). All that is said of such locks holds: [`keeping`](super::keeping) says what
//! to do when it is at risk, and [`operating`](super::operating#nodes-that-give-fencing-tokens) how nodes come to give
//! fencing tokens. The fencing token is the number of the term.
//!
//! # What is guaranteed
//!
//! * Two clients do not lead at the same time, as two clients do not hold one lock ([`guarantees`](super::guarantees)).
//!   Where that must hold also for a process that was stopped in the middle of its work, the store has to refuse a
//!   smaller term than it has seen. Terms grow with each leader, without any assumption about clocks.
//! * If a leader dies, the next candidate leads after the ttl of the lock at the latest. If it resigns, or its process
//!   ends in order, at once.
//! * An observer shows terms in their order, and never a term that its leader does not have: the term is part of the
//!   token that a majority of the nodes stores, and a node grants a lock with such a token only if its own counter gives
//!   just that number.
//! * A resignation is seen with the first push of a node. Without pushes, the observer asks from time to time.
//! * While too few nodes answer, an observer shows no change, because the leader may still lead.
//!
//! # What is not
//!
//! * What an observer shows is past. The leader that it names may have been followed by another. Send the term along
//!   with what you ask of it, and let the leader refuse terms that are not its own.
//! * An observer may leave out a leader that led for a few milliseconds only.
//! * A client that takes the lock without `campaign`, or without a fencing token, leads for no observer.
//!
//! # By hand
//!
//! A lock with [`owner`](crate::LockOptions::owner), [`fenced`](crate::LockOptions::fenced) and
//! [`keep`](crate::LockOptions::keep) is the same, with a guard in place of a [`Leadership`](crate::Leadership);
//! [`Holder::fencing_token`](crate::Holder::fencing_token) shows its term. From a shell,
//! `shearline run --fenced --owner ADDRESS NAME -- COMMAND` leads while the command runs, and `shearline watch --json
//! NAME` observes.
//!
//! If no node takes the number that the token of a candidate names, because another client has had larger ones, the
//! candidate asks once more with the number that the nodes want. That costs a second round trip
//! ([`Stats::second_round_trips`](crate::Stats::second_round_trips)).
