//! With the feature `serde`, programs can serialize [`Stats`], [`Inspection`] and [`NodeStatus`] as objects, for logs
//! and web pages.
//!
//! Fields have the same names as in Rust. Times are in milliseconds with a fraction, and their names end in `_ms`. A
//! key without an expiry has the time `null`. A name or an owner that is not UTF-8 is written as hexadecimal digits, in
//! `resource_hex` or `owner_hex`. A state is written as one word, with a reason. Objects never contain tokens.

use alloc::string::{String, ToString};
use core::fmt::{Display, Write};
use core::time::Duration;

use serde_core::ser::{Serialize, SerializeMap, Serializer};

use crate::engine::inspection::{Found, Holder, HolderKind, InspectedNode, Inspection};
use crate::engine::stats::{Acquisitions, Extensions, NodeStats, Releases, Stats};
use crate::histogram::Histogram;
use crate::{NodeState, NodeStatus};

/// Implements `Serialize` for a type as a map with these fields.
macro_rules! objects {
    ($($type:ident |$it:ident| { $($name:expr => $value:expr),* $(,)? })*) => {$(
        #[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $it = self;
                let mut map = serializer.serialize_map(None)?;
                $(map.serialize_entry(&$name, &$value)?;)*
                map.end()
            }
        }
    )*};
    // Uses the name of the Rust field for each serialized field.
    ($($type:ident { $($field:ident),* })*) => {
        objects! {$($type |it| { $(stringify!($field) => it.$field,)* })*}
    };
}

objects! {
    Acquisitions { acquired, held, no_quorum, too_slow, other_group, saturated, cancelled }
    Extensions { extended, unconfirmed, lost, expired, limit, saturated, cancelled }
    Releases { released, not_held, unconfirmed, unwatched }
    Stats {
        acquisitions, extensions, releases, adopted, lost, second_round_trips, waiting, held, kept, debts, acquire,
        wait, hold, validity_left, nodes
    }
}

objects! {
    NodeStats |it| { "address" => *it.address, "latency" => it.latency }
    Histogram |it| {
        "count" => it.count(),
        "sum_ms" => millis(it.sum()),
        "p50_ms" => it.quantile(0.5).map(millis),
        "p99_ms" => it.quantile(0.99).map(millis),
        "max_ms" => it.quantile(1.0).map(millis),
    }
    Inspection |it| {
        key_of(RESOURCE, it.resource()) => text(it.resource()),
        "is_free" => it.is_free(), "holders" => it.holders(), "nodes" => it.nodes() }
    Holder |it| {
        key_of(OWNER, &it.owner) => text(&it.owner),
        "valid_for_ms" => left(it.valid_for),
        "nodes" => it.nodes,
        "kind" => kind(it.kind),
        "slot" => permit(it.kind).map(|(_, slot)| slot),
        "permits" => permit(it.kind).map(|(permits, _)| permits),
        "fencing_token" => it.fencing_token,
    }
    InspectedNode |it| { "address" => *it.address, "counts" => it.counts, "found" => it.found }
    NodeStatus |it| {
        "address" => *it.address,
        "state" => state(it.state),
        "reason" => reason(it.state),
        "words" => it.words.as_deref(),
        "quarantine_ms" => quarantine(it.state).map(millis),
        "run_id" => it.run_id,
        "product" => it.product,
        "round_trip_ms" => it.round_trip.map(millis),
        "grants" => it.grants,
        "refused" => it.refused.map(|error| error.to_string()),
        "in_flight" => it.in_flight,
        "debts" => it.debts,
        "clock_steps" => it.clock_steps,
        "evicts_locks" => it.evicts_locks,
        "memory_percent" => it.memory_percent,
        "waking" => it.waking.to_string(),
        "releasing" => it.releasing,
        "uptime_ms" => it.uptime.map(millis),
        "marked_ttl_ms" => it.marked_ttl.map(millis),
        "barrier_ms" => it.barrier.map(millis),
        "lacks_floor" => it.lacks_floor,
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl Serialize for Found {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Free => map.serialize_entry("what", "free")?,
            Self::Holder { left: time } => {
                map.serialize_entry("what", "holder")?;
                map.serialize_entry("left_ms", &left(*time))?;
            }
            Self::Copy {
                owner: label,
                token,
                left: time,
            } => {
                map.serialize_entry("what", "copy")?;
                map.serialize_entry(key_of(OWNER, label), &text(label))?;
                map.serialize_entry("token", token)?;
                map.serialize_entry("left_ms", &left(*time))?;
            }
            Self::Several {
                holders,
                left: time,
            } => {
                map.serialize_entry("what", "holders")?;
                map.serialize_entry("holders", holders)?;
                map.serialize_entry("left_ms", &left(*time))?;
            }
            Self::OtherType => map.serialize_entry("what", "other_type")?,
            Self::Unknown(outcome) => {
                map.serialize_entry("what", "unknown")?;
                map.serialize_entry("reason", &outcome.to_string())?;
            }
        }
        map.end()
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Returns `None` if the key has no expiry.
fn left(time: Duration) -> Option<f64> {
    (time != Duration::MAX).then(|| millis(time))
}

/// The names of the field for UTF-8 text and for other bytes.
const OWNER: [&str; 2] = ["owner", "owner_hex"];
const RESOURCE: [&str; 2] = ["resource", "resource_hex"];

fn key_of(names: [&'static str; 2], bytes: &[u8]) -> &'static str {
    names[usize::from(core::str::from_utf8(bytes).is_err())]
}

fn text(bytes: &[u8]) -> String {
    let text = core::str::from_utf8(bytes).map(String::from);
    text.unwrap_or_else(|_| {
        let mut digits = String::new();
        for byte in bytes {
            let _ = write!(digits, "{byte:02x}"); // Writing to a `String` does not fail.
        }
        digits
    })
}

fn kind(kind: HolderKind) -> &'static str {
    match kind {
        HolderKind::Exclusive => "exclusive",
        HolderKind::Shared => "shared",
        HolderKind::Permit { .. } => "permit",
    }
}

fn permit(kind: HolderKind) -> Option<(u16, u16)> {
    match kind {
        HolderKind::Permit { permits, slot } => Some((permits, slot)),
        HolderKind::Exclusive | HolderKind::Shared => None,
    }
}

fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::New => "new",
        NodeState::Connecting => "connecting",
        NodeState::Ready => "ready",
        NodeState::Quarantined { .. } => "quarantined",
        NodeState::Suspect => "suspect",
        NodeState::Down(_) => "down",
        NodeState::Unusable(_) => "unusable",
    }
}

fn reason(state: NodeState) -> Option<String> {
    let reason: &dyn Display = match &state {
        NodeState::Down(reason) => reason,
        NodeState::Unusable(reason) => reason,
        NodeState::New
        | NodeState::Connecting
        | NodeState::Ready
        | NodeState::Quarantined { .. }
        | NodeState::Suspect => return None,
    };
    Some(reason.to_string())
}

fn quarantine(state: NodeState) -> Option<Duration> {
    match state {
        NodeState::Quarantined { left } => Some(left),
        NodeState::New
        | NodeState::Connecting
        | NodeState::Ready
        | NodeState::Suspect
        | NodeState::Down(_)
        | NodeState::Unusable(_) => None,
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::Redlock;
    use crate::embedded::EmbeddedNode;
    use alloc::vec::Vec;
    use serde_json::{Value, to_value};

    #[test]
    fn a_handle_shows_its_state_as_json() {
        let nodes: Vec<_> = (0..3)
            .map(|_| EmbeddedNode::spawn().expect("a node"))
            .collect();
        let builder = Redlock::builder().nodes(nodes.iter().map(EmbeddedNode::url));
        let redlock = builder.owner([0xff, 1]).build().expect("valid");
        let lock = redlock.lock("a", Duration::from_secs(60)).expect("free");
        let json = |value: &dyn Fn() -> serde_json::Result<Value>| value().expect("it is JSON");
        let stats = json(&|| to_value(redlock.stats()));
        assert_eq!(stats["acquisitions"]["acquired"], 1);
        assert_eq!(stats["held"], 1);
        assert_eq!(stats["hold"]["p99_ms"], Value::Null);
        assert_eq!(stats["acquire"]["count"], 1);
        assert!(stats["acquire"]["max_ms"].as_f64().expect("a time") < 60_000.0);
        assert_eq!(stats["nodes"][2]["address"], nodes[2].address().to_string());
        let inspection = redlock.inspect("a").expect("all answer");
        let object = json(&|| to_value(&inspection));
        let holder = &object["holders"][0];
        assert_eq!(object["resource"], "a");
        assert_eq!(object["is_free"], false);
        assert_eq!(holder["owner_hex"], "ff01");
        assert_eq!(holder["kind"], "exclusive");
        assert_eq!(holder["slot"], Value::Null);
        assert!(50_000.0 < holder["valid_for_ms"].as_f64().expect("a time"));
        let mut seen = object["nodes"].as_array().expect("three").iter();
        assert!(seen.any(|node| node["found"]["what"] == "holder"));
        let token = text(lock.token().as_bytes());
        let is_shown = object.to_string().contains(&token[..40]);
        assert!(!is_shown, "no token is shown");
        nodes[1].stop().expect("it lives");
        let mut status = Value::Null;
        crate::shared::tests::eventually("it is down", || {
            status = json(&|| to_value(redlock.nodes()));
            status[1]["state"] == "down"
        });
        assert_eq!(status[0]["state"], "ready");
        assert_eq!(status[0]["reason"], Value::Null);
        assert!(status[1]["reason"].is_string());
        assert!(86_000_000.0 < status[0]["uptime_ms"].as_f64().expect("a time"));
    }
}
