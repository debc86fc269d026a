//! The nodes of the demo. The demo uses five nodes in this process, or servers that it does not stop.

use std::io;
use std::time::Duration;

use shearline::embedded::{EmbeddedNode, Memory};
use shearline::{LocalRedlock, LockError, Redlock, RestartGuard};

use super::contest::Contest;

const OWN: usize = 5;

/// The indexes of the node that the demo kills and the node that it freezes.
const KILLED: usize = 1;
const FROZEN: usize = 3;

/// The timeout for connecting to a server, and for asking whether it still has a key.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The nodes of a demo.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Nodes in this process. The list is empty if the user gave URLs.
    own: Vec<EmbeddedNode>,
    pub(super) urls: Vec<String>,
}

/// What the demo finds on a node at the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Left {
    Nothing,
    Key,
    /// The node did not answer.
    Unknown,
}

impl Nodes {
    /// Uses the servers at `urls`. Without URLs, starts nodes in this process.
    pub(super) fn start(urls: &[String]) -> io::Result<Self> {
        let (mut own, mut urls) = (Vec::new(), urls.to_vec());
        if urls.is_empty() {
            let spawned = (0..OWN).map(|_| EmbeddedNode::spawn());
            own = spawned.collect::<io::Result<_>>()?;
            urls = own.iter().map(EmbeddedNode::url).collect();
        }
        Ok(Self { own, urls })
    }

    pub(super) fn are_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// Kills one of the demo's own nodes, and freezes another.
    pub(super) fn disturb(&self) -> io::Result<()> {
        self.own[KILLED].stop()?;
        self.own[FROZEN].pause()
    }

    /// Restores both nodes.
    ///
    /// The killed node keeps its memory, like a server with `appendonly yes` and `appendfsync always`. A client does
    /// not know that the node has kept its memory.
    pub(super) fn bring_back(&self) -> io::Result<()> {
        self.own[KILLED].restart(Memory::Kept)?;
        self.own[FROZEN].resume()
    }

    /// Returns the address of each node, and whether the key of the lock is left there.
    pub(super) fn leftovers(&self, contest: &Contest) -> Vec<(String, Left)> {
        let nodes = contest.redlock.nodes();
        let addresses = nodes.iter().map(|node| node.address.to_string());
        let left = self.urls.iter().map(|url| leftover(url, &contest.key));
        addresses.zip(left).collect()
    }
}

/// Finds out whether a key is left, by taking the lock on this node alone.
fn leftover(url: &str, key: &str) -> Left {
    let Ok(mut alone) = alone(url) else {
        return Left::Unknown;
    };
    let lock = alone.try_lock(key, PATIENCE * 10);
    match lock.map(|lock| alone.unlock(lock)) {
        Ok(Ok(_)) => Left::Nothing,
        Err(LockError::Held(_)) => Left::Key,
        Ok(Err(_)) | Err(_) => Left::Unknown,
    }
}

fn alone(url: &str) -> Result<LocalRedlock, shearline::BuildError> {
    let builder = Redlock::builder().node(url).connect_timeout(PATIENCE);
    let builder = builder.node_timeout(PATIENCE);
    builder.restart_guard(RestartGuard::Off).build_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_left_on_a_node_are_found() {
        let nodes = Nodes::start(&[]).expect("five nodes");
        let found = |key| -> Vec<Left> {
            let urls = nodes.urls.iter();
            urls.map(|url| leftover(url, key)).collect()
        };
        assert_eq!(found("k"), [Left::Nothing; OWN]);

        let url = nodes.urls[2].clone();
        let mut other = alone(&url).expect("a good configuration");
        let lock = other.try_lock("k", Duration::from_secs(60)).expect("free");
        let mut expected = [Left::Nothing; OWN];
        expected[2] = Left::Key;
        assert_eq!(found("k"), expected);

        assert!(other.unlock(lock).is_ok());
        nodes.disturb().expect("they obey");
        expected = [Left::Nothing; OWN];
        expected[KILLED] = Left::Unknown;
        expected[FROZEN] = Left::Unknown;
        assert_eq!(found("k"), expected);
        nodes.bring_back().expect("they obey");
        assert_eq!(found("j"), [Left::Nothing; OWN]);
    }
}
