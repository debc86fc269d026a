//! The nodes that the demo locks on: five of its own, or servers, which it does not stop.

use std::io;
use std::time::Duration;

use shearline::embedded::{EmbeddedNode, Memory};
use shearline::{Builder, LocalRedlock, LockError, NodeConfig, Redlock, RestartGuard};

const OWN: usize = 5;

/// Which of the own nodes is killed and which frozen, by their places.
const KILLED: usize = 1;
const FROZEN: usize = 3;

/// How long a server may take to say whether a key is left on it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The nodes of a demo.
#[derive(Debug)]
pub(super) enum Nodes {
    /// In this process.
    Own(Vec<EmbeddedNode>),
    /// The URLs of servers.
    Real(Vec<String>),
}

/// What was found on a node at the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Left {
    Nothing,
    Key,
    /// The node did not answer.
    Unknown,
}

impl Nodes {
    /// Servers at `urls`, or nodes in this process if there are none.
    pub(super) fn start(urls: &[String]) -> io::Result<Self> {
        match urls.is_empty() {
            true => (0..OWN)
                .map(|_| EmbeddedNode::spawn())
                .collect::<io::Result<_>>()
                .map(Self::Own),
            false => Ok(Self::Real(urls.to_vec())),
        }
    }

    pub(super) fn are_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    pub(super) fn urls(&self) -> Vec<String> {
        match self {
            Self::Own(nodes) => nodes.iter().map(EmbeddedNode::url).collect(),
            Self::Real(urls) => urls.clone(),
        }
    }

    /// Kills one of the own nodes, and freezes another.
    pub(super) fn disturb(&self) -> io::Result<()> {
        let Self::Own(nodes) = self else {
            return Ok(());
        };
        nodes[KILLED].stop()?;
        nodes[FROZEN].pause()
    }

    /// Brings both back.
    ///
    /// The killed one keeps its memory, as a server with `appendonly yes` and `appendfsync always`
    /// would. A node that forgets its locks must not vote before they have expired; the demo does not
    /// show that.
    pub(super) fn bring_back(&self) -> io::Result<()> {
        let Self::Own(nodes) = self else {
            return Ok(());
        };
        nodes[KILLED].restart(Memory::Kept)?;
        nodes[FROZEN].resume()
    }

    /// Returns whether `key` is left on each node, with its address.
    ///
    /// Asks each node alone, by a lock over this one node: it is granted if there is no such key.
    pub(super) fn leftovers(&self, key: &str) -> Vec<(String, Left)> {
        let urls = self.urls();
        urls.iter()
            .map(|url| (address(url), leftover(url, key)))
            .collect()
    }
}

fn leftover(url: &str, key: &str) -> Left {
    let Ok(mut alone) = alone(url) else {
        return Left::Unknown;
    };
    match alone.try_lock(key, PATIENCE * 10) {
        Ok(lock) => match alone.unlock(lock) {
            Ok(_) => Left::Nothing,
            Err(_) => Left::Unknown,
        },
        Err(LockError::Held(_)) => Left::Key,
        Err(_) => Left::Unknown,
    }
}

fn alone(url: &str) -> Result<LocalRedlock, shearline::BuildError> {
    let builder: Builder = Redlock::builder().node(url);
    builder
        .connect_timeout(PATIENCE)
        .node_timeout(PATIENCE)
        .restart_guard(RestartGuard::Off)
        .build_local()
}

/// The address in a URL, without credentials.
fn address(url: &str) -> String {
    let node: Result<NodeConfig, _> = url.parse();
    node.map_or_else(|_| "?".into(), |node| node.label().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_left_on_a_node_are_found() {
        let nodes = Nodes::start(&[]).expect("five nodes");
        let found = |key| -> Vec<Left> {
            let found = nodes.leftovers(key);
            found.into_iter().map(|(_, left)| left).collect()
        };
        assert_eq!(found("k"), [Left::Nothing; OWN]);

        let url = nodes.urls().swap_remove(2);
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

    #[test]
    fn an_address_has_no_credentials() {
        assert_eq!(address("redis://u:secret@db:7000/2"), "db:7000");
        assert_eq!(address("not a url"), "?");
    }
}
