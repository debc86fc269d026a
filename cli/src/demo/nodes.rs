//! The nodes of the demo: five of its own, or servers, which it does not stop.

use std::io;
use std::time::Duration;

use shearline::embedded::{EmbeddedNode, Memory};
use shearline::{Found, Redlock};

const OWN: usize = 5;

/// The places of the own nodes that the demo kills and freezes.
const KILLED: usize = 1;
const FROZEN: usize = 3;

/// How long a server may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The nodes of a demo.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Nodes in this process. There are none if servers were named.
    own: Vec<EmbeddedNode>,
    pub(super) urls: Vec<String>,
}

/// What the demo found on a node at the end.
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
        let (mut own, mut urls) = (Vec::new(), urls.to_vec());
        if urls.is_empty() {
            own = (0..OWN)
                .map(|_| EmbeddedNode::spawn())
                .collect::<io::Result<_>>()?;
            urls = own.iter().map(EmbeddedNode::url).collect();
        }
        Ok(Self { own, urls })
    }

    pub(super) fn are_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// Kills one of the own nodes, and freezes another.
    pub(super) fn disturb(&self) -> io::Result<()> {
        self.own[KILLED].stop()?;
        self.own[FROZEN].pause()
    }

    /// Brings both nodes back.
    ///
    /// The killed node keeps its memory, as a server with `appendonly yes` and `appendfsync always` would. A client
    /// cannot know this.
    pub(super) fn bring_back(&self) -> io::Result<()> {
        self.own[KILLED].restart(Memory::Kept)?;
        self.own[FROZEN].resume()
    }
}

/// Returns the address of each node, and whether the key of the lock is left there.
pub(super) fn leftovers(redlock: &Redlock, key: &str) -> Vec<(String, Left)> {
    let Ok(told) = redlock.inspect(key) else {
        let nodes = redlock.nodes().into_iter();
        return nodes
            .map(|node| (node.address.to_string(), Left::Unknown))
            .collect();
    };
    let found = told.nodes().iter().map(|node| {
        let left = match node.found {
            Found::Free => Left::Nothing,
            Found::Unknown(_) => Left::Unknown,
            Found::Holder { .. } | Found::Copy { .. } | _ => Left::Key,
        };
        (node.address.to_string(), left)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use shearline::RestartGuard;

    use super::*;

    #[test]
    fn keys_left_on_a_node_are_found() {
        let nodes = Nodes::start(&[]).expect("five nodes");
        let of = |urls: &[String]| {
            let builder = Redlock::builder().nodes(urls).node_timeout(PATIENCE);
            let builder = builder.restart_guard(RestartGuard::Off);
            builder.build().expect("a good configuration")
        };
        let all = of(&nodes.urls);
        let found = |key| -> Vec<Left> {
            let found = leftovers(&all, key).into_iter();
            found.map(|(_, left)| left).collect()
        };
        assert_eq!(found("k"), [Left::Nothing; OWN]);

        let other = of(&nodes.urls[2..3]);
        let lock = other.try_lock("k", Duration::from_secs(60)).expect("free");
        let mut expected = [Left::Nothing; OWN];
        expected[2] = Left::Key;
        assert_eq!(found("k"), expected);

        assert!(lock.unlock().is_ok());
        nodes.disturb().expect("they obey");
        expected = [Left::Nothing; OWN];
        expected[KILLED] = Left::Unknown;
        expected[FROZEN] = Left::Unknown;
        assert_eq!(found("k"), expected);
        nodes.bring_back().expect("they obey");
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(100));
            if found("j") == [Left::Nothing; OWN] {
                return;
            }
        }
        panic!("{:?}", found("j"));
    }
}
