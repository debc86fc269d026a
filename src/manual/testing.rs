//! How to test with locks, and how this library is tested.
//!
//! # Your tests
//!
//! With the feature `embedded` a test starts nodes in its own process: `embedded::EmbeddedNode`
//! gives each a loopback address. They understand what this library sends and no more, and are no
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
//! nodes[0].stop()?; // one of three decides nothing
//! redlock.try_lock("invoice:42", Duration::from_secs(60))?.unlock()?;
//!
//! nodes[1].pause()?; // and now there is no majority
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
//! Real servers are needed for what they alone do: persistence, permissions, eviction, other
//! clients. `tests/it/servers` in the repository shows how to start and end them.
//!
//! A ttl of a minute makes a forgotten release show as a test that hangs; a ttl of 100 ms hides it.
//!
//! # Ours
//!
//! `bash tests/run.sh` installs what is missing and runs everything.
//!
//! 1. **Unit tests** beside the code. Small domains are tried whole: all patterns of votes for up
//!    to seven nodes (`quorum::tally::tests::every_pattern_of_up_to_seven_nodes`), all ways to cut a
//!    stream.
//! 2. **Models**: the timing wheel against a sorted map, the decoder against itself with the stream
//!    torn, both also as fuzz targets.
//! 3. **Stories of the engine**, told by feeding it bytes and time
//!    (`engine::tests::acquire::the_third_vote_of_five_decides_and_stragglers_still_count`).
//! 4. **The simulator** (`tests/sim`): whole engines in worlds with virtual time, under oracles, and
//!    with one guard of the algorithm taken out at a time, which some oracle has to notice
//!    (`shearline::manual::safety`).
//! 5. **The public interface on real servers**, in `tests/it`: Redis and Valkey processes that each
//!    test starts on free ports and ends by their ids. What a test says about keys it learned over
//!    a connection of its own.
//! 6. **The texts**: every program in the documentation is compiled, the tests that the manual names
//!    have to exist (`readme::every_test_that_is_named_exists`), links have to lead somewhere
//!    (`readme::every_link_leads_to_something_that_exists`), and the permissions in
//!    [`permissions`](super::permissions) have to suffice and to be the least
//!    (`readme::the_acl_line_suffices_and_is_the_least`).
