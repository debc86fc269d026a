//! The marker of the strict restart guard: a key on each node that names the node's group.
//!
//! The key's value is a line of words, such as `1 4f1c..9b 60000 5 3 0 default`. The words are the version of the
//! format, the `run_id` of the server on which the marker was written, and the longest ttl of all clients in
//! milliseconds. The last four words are the number of nodes, the number of nodes in a majority, whether the server
//! loses no data in a restart, and the name of the group. The marker does not contain addresses, because a node may
//! have several addresses.
//!
//! # Guarantees
//!
//! * A marker is valid only if the script for joining a group could have written it.
//! * A [barrier](Group::barrier) for a ttl lasts until every lock with that ttl has expired.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use crate::config::Config;
use crate::error::{Shown, Unusable};
use crate::limits::{GROUP_BYTES_MAX, TTL_HARD_MAX};
use crate::quorum::{Drift, quorum_of};

/// The length of the longest marker, with a `run_id` of 64 bytes, a ttl, two numbers of nodes, and the name.
pub(crate) const MARKER_BYTES_MAX: usize = 2 + 65 + 14 + 3 + 3 + 2 + GROUP_BYTES_MAX;

/// The group that a handle expects. The group is the same for all nodes of the handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) nodes: usize,
    pub(crate) name: Arc<str>,
    drift: Drift,
}

impl Group {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            nodes: config.nodes().len(),
            name: config.group().into(),
            drift: config.drift(),
        }
    }

    pub(crate) fn quorum(&self) -> usize {
        quorum_of(self.nodes)
    }

    /// Returns the text that names the group of a `marker` and this group. The name of a group is not a secret.
    pub(super) fn beside(&self, marker: Option<&Marker>) -> Arc<str> {
        let other = marker.map(|it| format!("its group is `{}`; ", Shown(it.group.as_bytes())));
        let (other, own) = (other.unwrap_or_default(), Shown(self.name.as_bytes()));
        let nodes = match self.nodes {
            1 => "1 node".into(),
            nodes => format!("{nodes} nodes"),
        };
        format!("{other}this client has {nodes} in the group `{own}`").into()
    }

    /// Returns the length of a barrier in milliseconds. When the barrier ends, every lock with a ttl of up to `longest`
    /// has expired.
    pub(crate) fn barrier(&self, longest: Duration) -> u64 {
        let drift = self.drift.of(longest).max(Drift::default().of(longest));
        whole_millis(longest.saturating_add(drift))
    }
}

/// Returns `duration` in whole milliseconds, rounded up.
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A marker, as it was read from a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Marker {
    pub(crate) run_id: String,
    pub(crate) longest: Duration,
    nodes: u16,
    quorum: u16,
    group: String,
}

impl Marker {
    /// Reads a marker. Returns `None` if the text has another version, or is not a marker.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        let mut words = text.split(' ');
        let mut next = || words.next().filter(|word| !word.is_empty());
        (next()? == "1").then_some(())?;
        let marker = Self {
            run_id: next()?.into(),
            longest: next()?.parse().ok().map(Duration::from_millis)?,
            nodes: next()?.parse().ok()?,
            quorum: next()?.parse().ok()?,
            group: {
                ["0", "1"].contains(&next()?).then_some(())?;
                next()?.into()
            },
        };
        let whole = words.next().is_none() && text.len() <= MARKER_BYTES_MAX;
        (whole && marker.longest <= TTL_HARD_MAX).then_some(marker)
    }

    /// Returns how the marker differs from `group`, or `None` if they agree.
    pub(crate) fn differs(&self, group: &Group) -> Option<Unusable> {
        let differs = usize::from(self.nodes) != group.nodes
            || usize::from(self.quorum) != group.quorum()
            || *self.group != *group.name;
        differs.then(|| Unusable::OtherGroup {
            nodes: self.nodes,
            quorum: self.quorum,
            name: *self.group != *group.name,
        })
    }
}

/// The result of [`Marker::differs`] for an unreadable marker.
pub(crate) const UNREADABLE: Unusable = Unusable::OtherGroup {
    nodes: 0,
    quorum: 0,
    name: true,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn group(builder: crate::config::Builder) -> Group {
        Group::of(&builder.config().expect("valid"))
    }

    #[test]
    fn a_marker_is_read_whole_or_not_at_all() {
        let text = "1 0a1b 60000 3 2 0 default";
        let marker = Marker::read(text.as_bytes()).expect("it is one");
        assert_eq!(marker.run_id, "0a1b");
        assert_eq!(marker.longest, Duration::from_secs(60));
        for wrong in [
            "",
            "2 0a1b 60000 3 2 0 default",
            "1 0a1b 60000 3 2 0",
            "1 0a1b 60000 3 2 0 default x",
            "1 0a1b 60000 3 2 2 default",
            "1  60000 3 2 0 default",
            "1 0a1b x 3 2 0 default",
            "1 0a1b 99999999999999 3 2 0 default",
            "1 0a1b 60000 70000 2 0 default",
        ] {
            assert_eq!(Marker::read(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Marker::read(b"\xff"), None);
    }

    #[test]
    fn another_membership_is_told_apart() {
        let three = || Config::builder().nodes(["a", "b", "c"]);
        let marker = Marker::read(b"1 r 60000 3 2 0 default").expect("it is one");
        assert_eq!(marker.differs(&group(three())), None);
        let differs = |name| {
            Some(Unusable::OtherGroup {
                nodes: 3,
                quorum: 2,
                name,
            })
        };
        assert_eq!(marker.differs(&group(three().node("d"))), differs(false));
        let named = group(three().group("till"));
        assert_eq!(marker.differs(&named), differs(true));
        let marker = Marker::read(b"1 r 60000 3 3 0 default").expect("it is one");
        assert!(marker.differs(&group(three())).is_some());
        let (one, three) = (group(Config::builder().node("a")), group(three()));
        let (one, three) = (one.beside(Some(&marker)), three.beside(None));
        let own = "this client has 1 node in the group `default`";
        assert_eq!(*one, format!("its group is `default`; {own}"));
        assert_eq!(&*three, "this client has 3 nodes in the group `default`");
    }

    /// A barrier is longer than the ttl by at least a hundredth and 2 ms, and by more if the drift is larger.
    #[test]
    fn a_barrier_outlives_every_lock() {
        let one = || Config::builder().node("a");
        let wide = group(one().drift(0.1, Duration::from_millis(1)));
        let none = group(one().drift(0.0, Duration::ZERO));
        let longest = Duration::from_secs(60);
        assert_eq!(group(one()).barrier(longest), 60_602);
        assert_eq!(wide.barrier(longest), 66_001);
        assert_eq!(none.barrier(longest), 60_602);
        assert_eq!(group(one()).barrier(Duration::from_millis(4)), 7);
    }
}
