//! How to test with locks, and how this library is tested.
//!
//! # Your tests
//!
//! With the feature `embedded` a test starts nodes in its own process: `embedded::EmbeddedNode`
//! gives each a loopback address. They understand only the commands of this library, and are no
//! production servers. A node can stall (`pause`, `resume`), and it can stop and start again with
//! or without its keys (`stop`, `restart`), so a test can show what your program does then:
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use shearline::embedded::{EmbeddedNode, Memory};
//! use shearline::{LockError, Redlock};
//!
//! let nodes = [EmbeddedNode::spawn()?, EmbeddedNode::spawn()?, EmbeddedNode::spawn()?];
//! let redlock = Redlock::connect(nodes.iter().map(EmbeddedNode::url))?;
//!
//! nodes[0].stop()?; // two of three are still a majority
//! redlock.try_lock("invoice:42", Duration::from_secs(60))?.unlock()?;
//!
//! nodes[1].pause()?; // now there is no majority
//! let error = redlock.try_lock("invoice:42", Duration::from_secs(60)).unwrap_err();
//! assert!(matches!(error, LockError::NoQuorum(_)));
//!
//! nodes[0].restart(Memory::Lost)?;
//! nodes[1].resume()?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! Real servers are needed for what only they do: persistence, permissions, eviction, other
//! clients. `tests/it/servers` in the repository shows how to start and end them.
//!
//! A ttl of a minute makes a forgotten release show as a test that hangs; a ttl of 100 ms hides it.
//!
//! # Our tests
//!
//! `bash tests/run.sh` installs what is missing and runs some of everything, in minutes. `bash tests/long.sh` runs
//! all of it. `tests/README.md` explains both.
//!
//! 1. **Unit tests** beside the code. Small domains are tested completely: all patterns of votes for
//!    up to seven nodes (`quorum::tally::tests::every_pattern_of_up_to_seven_nodes`), all ways to
//!    cut a stream.
//! 2. **Models**: the timing wheel against a sorted map, the decoder against itself with the stream
//!    torn, both are also fuzz targets.
//! 3. **Stories of the engine**: unit tests that feed it bytes and time
//!    (`engine::tests::acquire::the_third_vote_of_five_decides_and_stragglers_still_count`).
//! 4. **The simulator** (`tests/sim`): whole engines in worlds with virtual time, under oracles, and
//!    with one guard of the algorithm taken out at a time, which some oracle has to notice
//!    (`shearline::manual::safety`).
//! 5. **The public interface on real servers**, in `tests/it`: Redis and Valkey processes that each
//!    test starts on free ports and ends by their ids. A test reads keys over a connection of its
//!    own, not through the library.
//! 6. **The texts**: every program in the documentation is compiled. Tests check that the tests named
//!    in the manual exist (`readme::every_test_that_is_named_exists`), that links have a target
//!    (`readme::every_link_has_a_target`), and that the permissions in
//!    [`permissions`](super::permissions) suffice and are the least
//!    (`readme::the_acl_line_suffices_and_is_the_least`).
