//! The simulator runs whole engines in worlds with many faults, watched by oracles.
//!
//! The ordinary run plays some histories that are always the same, four of each kind of world, and
//! then fresh ones for half a minute of processor time ([`fresh`]). The long run
//! (`SHEARLINE_TEST_LONG=1`) plays more of each. By hand, on all cores:
//!
//! ```text
//! SEEDS=100000 cargo test --profile sim --features embedded --test sim -- --exact worlds_keep_their_promises --nocapture
//! ```
//!
//! [`replay`] lists the other variables.
//!
//! One world in four has no scripts ([`bare`]): servers refuse them, and clients do without. In one world in six the
//! servers carry markers ([`plan::Plan::marked`], `RestartGuard::Strict`): all of them are the embedded store, which
//! runs the scripts. There servers are also flushed, replaced by a replica that lags behind, and told to follow another
//! server for a while, while connections last. Markers and barriers are deleted, operators trust nodes (never wrongly),
//! and some clients have another longest ttl, another name or another number of nodes than the first. Exclusion has to
//! hold there too, and every answer that counts is checked against the state that its server had when it executed the
//! command.

pub(crate) mod assumptions;
pub(crate) mod bare;
pub(crate) mod begun;
pub(crate) mod case;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod contention;
pub(crate) mod delaying;
pub(crate) mod entropy;
pub(crate) mod faults;
pub(crate) mod fencing;
pub(crate) mod fresh;
pub(crate) mod fuzz;
pub(crate) mod heal;
pub(crate) mod heard;
pub(crate) mod history;
pub(crate) mod kinds;
pub(crate) mod link;
pub(crate) mod minimise;
pub(crate) mod mutations;
pub(crate) mod network;
pub(crate) mod oracle;
pub(crate) mod plan;
pub(crate) mod reading;
pub(crate) mod replay;
pub(crate) mod search;
pub(crate) mod server;
pub(crate) mod sets;
pub(crate) mod sights;
pub(crate) mod stranger;
pub(crate) mod sweep;
pub(crate) mod theme;
pub(crate) mod trace;
pub(crate) mod user;
pub(crate) mod watchdog;
pub(crate) mod watching;
pub(crate) mod world;
pub(crate) mod written;

/// How many histories the long run plays. An oracle has to notice a breakage within as many.
pub(crate) const SEEDS: u64 = 1_500;

/// How many histories the ordinary run plays.
const SEEDS_OF_ORDINARY_RUN: u64 = 200;

#[test]
fn worlds_keep_their_promises() {
    use replay::{effort, number};
    if history::record_anew() {
        return;
    }
    let _chosen = mutations::Chosen::by_environment();
    if replay::replay() {
        return;
    }
    let kind = replay::kind();
    let first = number("FIRST_SEED").unwrap_or(0);
    let seeds = number("SEEDS").unwrap_or(effort(SEEDS_OF_ORDINARY_RUN, SEEDS));
    let sweep = sweep::sweep(kind, first..first + seeds, sweep::Until::Last);
    sweep::say(&sweep.summary());
    sweep.assert_no_objection(kind);
    sweep::say("no oracle objects");
    if kind.name == case::ANY.name && seeds >= SEEDS {
        sweep.tally.assert_alive();
    }
}

#[test]
fn equal_choices_make_equal_histories() {
    use case::{ANY, Case, Choices, Keep};
    let _none = mutations::Chosen::new(None);
    let keep = Keep {
        trace: true,
        tape: true,
        inputs_max: None,
    };
    for seed in 0..3 {
        let one = Case::of_seed(ANY, seed).run(keep);
        let other = Case::of_seed(ANY, seed).run(keep);
        assert_eq!(one.lines, other.lines);
        let kind = ANY;
        let choices = Choices::Tape(one.recorded.tape.clone(), None);
        let again = Case { kind, choices }.run(keep);
        assert_eq!(again.lines, one.lines);
        assert_eq!(again.tally, one.tally);
    }
}

#[test]
fn a_world_without_choices_has_no_faults_and_takes_one_lock() {
    use case::{ANY, Case, Choices, Keep};
    let _none = mutations::Chosen::new(None);
    let choices = Choices::Tape(entropy::Tape::default(), None);
    let outcome = Case { kind: ANY, choices }.run(Keep::default());
    assert!(outcome.violation.is_none());
    let counts = outcome.tally.counts;
    // Every lock is taken once more after the faults.
    assert_eq!(counts.locks, 1);
    assert!(faults::NAMES.iter().all(|name| counts.sights.of(name) == 0));
}
