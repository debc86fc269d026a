//! The last handle is dropped while nodes are silent. Their releases are sent when the nodes are back, and then no
//! thread or descriptor of the handle is left.
//!
//! The tests count threads and descriptors, so each story runs in a separate process of this test binary.

use std::env;
use std::fs;
use std::time::Duration;

use shearline::{LockGuard, Redlock};

use crate::face::{over, ready};
use crate::parts::{part, played};
use crate::servers::{self, BRIEF, Cluster, LONG, Server, until};

const STORY: &str = "SHEARLINE_TEST_BACKGROUND";

#[test]
fn nodes_that_were_silent_when_the_locks_were_dropped_keep_none() {
    play("silent after");
}

#[test]
fn a_dropped_handle_leaves_nothing_when_the_keys_of_a_silent_node_have_expired() {
    play("silent for ever");
}

/// Runs the story in the other process. Without a story in the environment, does nothing.
#[test]
#[ignore = "a part of another test"]
fn process_of_its_own() {
    let Ok(story) = env::var(STORY) else {
        return;
    };
    match story.as_str() {
        "silent after" => silent_nodes_keep_none(),
        "silent for ever" => keys_are_over(),
        other => panic!("no such story: {other}"),
    }
}

fn play(story: &str) {
    played(part("background::process_of_its_own").env(STORY, story));
}

fn silent_nodes_keep_none() {
    let cluster = servers::five();
    let had = Had::now();
    let handle = patient(&cluster);
    let guards = locks(&handle, 600, LONG);
    cluster[3..].iter().for_each(Server::freeze);
    // The drop returns while the nodes are silent.
    drop((guards, handle));
    cluster[3..].iter().for_each(Server::thaw);
    cluster.assert_empty();
    had.is_all_there_is();
}

fn keys_are_over() {
    let cluster = servers::three();
    let had = Had::now();
    let handle = patient(&cluster);
    cluster[2].freeze();
    let guards = locks(&handle, 10, BRIEF);
    drop((guards, handle));
    had.is_all_there_is();
}

/// Returns a handle whose node timeout is longer than this test may take, so no call may wait for a silent node.
fn patient(cluster: &Cluster) -> Redlock {
    ready(over(cluster).node_timeout(LONG).dead_after(2 * LONG))
}

fn locks(handle: &Redlock, count: usize, ttl: Duration) -> Vec<LockGuard> {
    (0..count)
        .map(|key| handle.lock(format!("lock:{key}"), ttl).expect("free"))
        .collect()
}

/// The numbers of threads and descriptors of this process.
#[derive(Debug, Eq, PartialEq)]
struct Had {
    threads: usize,
    descriptors: usize,
}

impl Had {
    fn now() -> Self {
        let count = |of| fs::read_dir(of).expect("this is Linux").count();
        Self {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
        }
    }

    #[track_caller]
    fn is_all_there_is(&self) {
        until("no thread and no descriptor of the handle is left", || {
            Self::now() == *self
        });
    }
}
