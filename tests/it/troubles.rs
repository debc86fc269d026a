//! The manual's page for three in the morning: the tests bring about each symptom, and its words are on the page.
//!
//! Not here: `it is a replica` (`refusal`), `its user may not run` (`permissions`), and `too many operations or locks
//! are open on this handle` (`engine::tests::bounds`). `stats` and `engine::tests::stats` test the growing `Stats`, and
//! `contract` tests the copy on a minority. `cli/tests/it/command/lost.rs` tests what the command prints at its end.

use std::fmt::Display;
use std::time::Duration;

use shearline::{LockError, LockOptions, NodeOutcome, NodeReport, RestartGuard};

use crate::face::{at, over, ready, shared};
use crate::servers::{
    self, BRIEF, Cluster, LONG, Options, PATIENCE, SILENT, Server, eventually, until,
};

const PAGE: &str = include_str!("../../docs/troubles.md");

/// Asserts that `error` says each of these words, and that the page quotes them.
#[track_caller]
fn says(error: impl Display, words: &[&str]) {
    let error = format!("{error:#}");
    for words in words {
        assert!(error.contains(words), "{words:?} is not in {error:?}");
        let quoted = format!("`{words}`");
        assert!(PAGE.contains(&quoted), "{quoted} is not on the page");
    }
}

const NO_QUORUM: &str = "too few nodes could vote, so no lock was taken";

#[test]
fn nodes_that_are_down_or_silent_are_named() {
    let mut cluster = servers::three();
    let redlock = ready(over(&cluster).node_timeout(SILENT));
    cluster[0].kill();
    cluster[1].freeze();
    let error = eventually("both are known to be away", || {
        let error = redlock.try_lock("k", LONG).expect_err("one of three");
        let error = format!("{error:#}");
        let words = ["connection refused", "timed out"];
        words.iter().all(|it| error.contains(it)).then_some(error)
    });
    cluster[1].thaw();
    says(
        error,
        &[NO_QUORUM, "unreachable: connection refused", "timed out"],
    );
}

#[test]
fn nodes_that_have_restarted_are_named() {
    let mut cluster = servers::three();
    let redlock = shared(&cluster);
    let lock = redlock.try_lock("k", LONG).expect("free");
    lock.unlock().expect("held");
    (0..2).for_each(|node| cluster[node].restart());
    let error = eventually("both are in quarantine", || {
        let Err(LockError::NoQuorum(report)) = redlock.try_lock("k", BRIEF) else {
            return None;
        };
        let kept = |node: &&NodeReport| matches!(node.outcome, NodeOutcome::Quarantined { .. });
        let both = report.nodes().iter().filter(kept).count() == 2;
        both.then_some(LockError::NoQuorum(report))
    });
    says(error, &[NO_QUORUM, "it may have forgotten locks"]);
    redlock.trust_nodes();
    let lock = redlock.lock("k", BRIEF).expect("they are trusted");
    lock.unlock().expect("held");
}

#[test]
fn nodes_that_give_no_fencing_tokens_are_named() {
    not_with!(NoScripts, "fencing tokens need scripts");
    let mut cluster = servers::three();
    let redlock = ready(over(&cluster).restart_guard(RestartGuard::Off));
    let once = LockOptions::new(LONG).tries(1).fenced();
    let refused = |words: &str| {
        eventually("no token", || {
            let error = redlock.lock_with("k", &once).err()?;
            let error = format!("{error:#}");
            error.contains(words).then_some(error)
        })
    };
    let words = "it has no counter floor";
    says(refused(words), &[NO_QUORUM, words]);
    redlock.trust_nodes();
    let lock = redlock.lock_with("k", &once).expect("they have floors");
    lock.unlock().expect("held");
    cluster[0].kill();
    cluster[1].restart();
    let words = "its fencing tokens are in repair";
    says(refused(words), &[NO_QUORUM, words]);
}

#[test]
fn wrong_credentials_are_named() {
    let cluster = Cluster::with(3, &Options::redis().password("right"));
    let without = cluster.iter().map(|server| server.url_without());
    let redlock = at(without).build().expect("valid");
    let error = redlock.try_lock("k", LONG).expect_err("no password");
    says(error, &[NO_QUORUM, "it requires a password"]);
    let wrong = cluster.iter().map(|server| server.url_with(":wrong"));
    let redlock = at(wrong).build().expect("valid");
    let error = redlock.try_lock("k", LONG).expect_err("a wrong one");
    says(error, &[NO_QUORUM, "it refuses the credentials"]);
}

#[test]
fn credentials_that_are_not_to_be_had_are_named() {
    let cluster = servers::three();
    let urls = cluster.iter().map(Server::url_without);
    let redlock = at(urls).credentials(|_| Err("the vault is sealed".into()));
    let error = redlock.build().expect("valid").try_lock("k", LONG);
    let error = error.expect_err("no node is reached");
    let error = format!("{error:#}");
    says(
        &error,
        &[NO_QUORUM, "its credentials could not be obtained"],
    );
    assert!(error.contains("(the vault is sealed)"), "{error}");
}

#[test]
fn full_memory_is_named() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    cluster.run("CONFIG SET maxmemory 1");
    let error = redlock.try_lock("k", LONG).expect_err("no memory");
    says(error, &[NO_QUORUM, "refused: OOM"]);
}

#[test]
fn permits_that_are_taken_are_named() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let once = LockOptions::new(LONG).tries(1);
    let taken = [(); 4].map(|()| redlock.permit_with("gpu", 4, &once).expect("free"));
    let error = redlock.permit_with("gpu", 4, &once).expect_err("taken");
    says(error, &["all 4 permits are taken"]);
    drop(taken);
}

#[test]
fn holders_are_named() {
    let cluster = servers::three();
    let (redlock, other) = (shared(&cluster), shared(&cluster));
    let lock = other.try_lock("k", LONG).expect("free");
    let error = redlock.try_lock("k", LONG).expect_err("held");
    says(error, &["held by another client"]);
    let error = other.try_lock("k", LONG).expect_err("held");
    says(error, &["held by this handle"]);
    lock.unlock().expect("held");
    cluster.run("SET for-ever somebody");
    let options = LockOptions::new(LONG).wait(Duration::from_secs(1));
    let error = redlock.lock_with("for-ever", &options).expect_err("held");
    assert_matches!(error, LockError::Held(_), "{error}");
    says(error, &["held by another client", "without an expiry"]);
}

#[test]
fn a_loss_is_named() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let delete = |key: &str| {
        cluster.raws().iter_mut().for_each(|raw| {
            until("it is there", || raw.del(key.as_bytes()));
        });
    };
    let mut lock = redlock.try_lock("k", LONG).expect("free");
    delete("k");
    says(lock.extend(LONG).expect_err("gone"), &["was lost"]);
    let lock = redlock.try_lock("k", LONG).expect("free");
    delete("k");
    let error = lock.unlock().expect_err("gone");
    says(error, &["was no longer held"]);
    let mut lock = redlock.try_lock("k", BRIEF).expect("free");
    assert!(lock.lost().wait(PATIENCE), "the loss is reported");
    let error = lock.extend(LONG).expect_err("over");
    says(error, &["the lock had expired and cannot be revived"]);
}

#[test]
fn what_nodes_do_not_confirm_is_named() {
    let cluster = servers::three();
    let redlock = ready(over(&cluster).node_timeout(SILENT));
    let mut lock = redlock.try_lock("k", LONG).expect("free");
    (0..2).for_each(|node| cluster[node].freeze());
    let error = lock.extend(LONG).expect_err("silent");
    says(error, &["too few nodes confirmed that it is held"]);
    let error = lock.unlock().expect_err("silent");
    says(error, &["too few nodes confirmed its release"]);
    (0..2).for_each(|node| cluster[node].thaw());
    cluster.assert_gone("k");
}
