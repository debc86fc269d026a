//! The result of an inspection: the holder of a resource, its validity, and the nodes that disagree.
//!
//! # Not here
//!
//! The module [`inspect`](super::operation::inspect) describes how the engine inspects a resource.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::mem::discriminant;
use core::time::Duration;

use crate::error::{NodeOutcome, Shown, Span, Told};
use crate::limits::{HOLDERS_SHOWN_MAX, TOKEN_BYTES_MAX};
use crate::node::Member;
use crate::quorum::NodeSet;
use crate::resource::Token;
use crate::time::Instant;

/// The holders of a resource according to a majority of the nodes, and what each node has.
///
/// The result shows the state of the nodes at some time during the call. When you read it, the lock may already have
/// been released or taken. The result is for operators and logs, and grants no right to the resource.
#[derive(Clone)]
pub struct Inspection {
    pub(super) resource: Box<[u8]>,
    pub(super) free: bool,
    pub(super) holders: Box<[Holder]>,
    pub(super) nodes: Box<[InspectedNode]>,
}

/// A holder of a resource.
#[derive(Clone)]
#[non_exhaustive]
pub struct Holder {
    /// The owner text of the lock ([`LockOptions::owner`](crate::LockOptions::owner)) or of the holder's handle
    /// ([`Builder::owner`](crate::Builder::owner)). The text is empty if neither the lock nor the handle has an owner
    /// text. A client can write any text as its owner. The text is also empty if the token looks like a token of
    /// another library.
    pub owner: Box<[u8]>,
    /// The minimum time for which a majority of the nodes will still keep the holder's token. Until this time has
    /// passed, no other client can take the lock unless the holder releases it. The time is [`Duration::MAX`] if the
    /// keys have no expiry, and zero if they may have expired by now.
    ///
    /// If the holder uses a [lock delay](crate::Builder::lock_delay), its validity ends earlier by this delay. The
    /// nodes do not know the delay, so this handle does not know it either.
    pub valid_for: Duration,
    /// The number of nodes that have the holder's token and whose answers count.
    pub nodes: usize,
    /// The kind of the holder's lock.
    pub kind: HolderKind,
    /// The [fencing token](crate::LockOptions::fenced) of the lock, if the lock is fenced and has an owner text. The
    /// random token contains the fencing token, so the two always belong together.
    ///
    /// If an earlier inspection has shown a larger fencing token, the holder shown here has lost its lock, but has not
    /// noticed the loss yet.
    pub fencing_token: Option<u64>,
}

/// The kind of a holder's lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum HolderKind {
    /// An exclusive lock.
    Exclusive,
    /// A shared lock.
    Shared,
    /// One of several permits.
    Permit {
        /// The number of permits.
        permits: u16,
        /// The slot of the holder, counted from 0.
        slot: u16,
    },
}

impl Holder {
    pub(super) fn new(kind: HolderKind, token: &[u8], valid_for: Duration, nodes: NodeSet) -> Self {
        let token = Token::new(token);
        Self {
            owner: token.label().into(),
            valid_for,
            nodes: nodes.len(),
            kind,
            // The number in a token is a fencing token only if the lock is exclusive.
            fencing_token: token.number().filter(|_| kind == HolderKind::Exclusive),
        }
    }
}

/// What one node stores under the name of the resource.
#[derive(Clone)]
#[non_exhaustive]
pub struct InspectedNode {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// What the node stores under the name of the resource.
    pub found: Found,
    /// Whether the answer of the node counts. A node that may have forgotten locks is shown, but its answer never
    /// counts towards a majority.
    pub counts: bool,
    /// The same content as in `found`, but with all tokens. The tokens are never shown.
    pub(super) seen: Seen,
    /// When the question was sent. The remaining time counts from this instant.
    pub(super) since: Instant,
}

/// What a node stores under the name of the resource, according to its answer.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// The node has not answered yet.
    Unknown,
    Free,
    /// A token in the key, without a slot.
    Token(Member),
    /// The holders of shared locks or permits, in the order of their slots and tokens.
    Members(Box<[Member]>),
    OtherType,
}

impl Seen {
    /// Returns the token in the key, or the members of the set in the key.
    pub(super) fn holders(&self) -> &[Member] {
        match self {
            Self::Token(token) => core::slice::from_ref(token),
            Self::Members(members) => members,
            Self::Unknown | Self::Free | Self::OtherType => &[],
        }
    }

    /// Returns `true` if the key contains a set of holders.
    pub(super) const fn is_set(&self) -> bool {
        matches!(self, Self::Members(_))
    }

    /// Returns the token in the key, if the key contains one.
    pub(super) fn token(&self) -> Option<&[u8]> {
        let token = self.holders().first().filter(|_| !self.is_set());
        token.map(|token| token.token.get().as_bytes())
    }
}

/// What a node stores under the name of a resource. `left` is the remaining time of the key when the node answered,
/// or [`Duration::MAX`] if the key has no expiry.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum Found {
    /// The node has no key under this name.
    Free,
    /// The node has the token of the holder.
    Holder {
        /// The remaining time of the key.
        left: Duration,
    },
    /// The node has a token that is not on a majority of the nodes. The token belongs to an attempt that is in progress
    /// or has failed. An inspection cannot distinguish an attempt in progress from a failed attempt.
    Copy {
        /// The owner, as in [`Holder::owner`].
        owner: Box<[u8]>,
        /// A number that stands for the token. Copies with the same number come from one attempt.
        token: usize,
        /// The remaining time of the key.
        left: Duration,
    },
    /// The node has holders of shared locks or permits. The method [`Inspection::holders`] returns the holders whose
    /// tokens are on a majority of the nodes.
    Several {
        /// The number of holders, counted up to 512.
        holders: usize,
        /// The time until the last holder expires.
        left: Duration,
    },
    /// The key has a type that no lock uses. No client can take the lock on this node.
    OtherType,
    /// The content is unknown, because the node did not answer or its answer is unclear.
    Unknown(NodeOutcome),
}

/// Two measured expiries of a key count as equal if they differ by less than this duration, because some answers take
/// longer than others.
const SAME_END: Duration = Duration::from_millis(100);

impl InspectedNode {
    /// Returns `true` if `self` and `other`, two inspections of one node, found the same content with about the same
    /// expiry.
    pub(super) fn is_as_in(&self, other: &Self) -> bool {
        let end = |node: &Self, left| node.since.saturating_add(left);
        let same = |(one, there): (&Member, &Member)| {
            let (first, second) = (end(self, one.left), end(other, there.left));
            let apart = first
                .saturating_since(second)
                .max(second.saturating_since(first));
            one.id() == there.id() && apart < SAME_END
        };
        let (one, there) = (self.seen.holders(), other.seen.holders());
        self.counts == other.counts
            && discriminant(&self.found) == discriminant(&other.found)
            && one.len() == there.len()
            && one.iter().zip(there).all(same)
    }
}

impl Inspection {
    /// Returns the resource that was inspected.
    #[must_use]
    pub const fn resource(&self) -> &[u8] {
        &self.resource
    }

    /// Returns `true` if a majority of the nodes has no key for the resource.
    ///
    /// A result of `false` does not mean that the resource has a holder. While several clients compete, or after a
    /// client has failed, there may be no majority with the same token, and no majority without a
    /// key. [`nodes`](Self::nodes) shows what each node has.
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.free
    }

    /// Returns the holder of the lock, if a majority of the nodes has the same token. For the holders of shared locks
    /// and permits, see [`holders`](Self::holders).
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        let holder = self.holders.first();
        holder.filter(|holder| holder.kind == HolderKind::Exclusive)
    }

    /// Returns all holders whose tokens are on a majority of the nodes: the single holder of the lock, the holders of
    /// shared locks, or the holders of permits in the order of their slots. Each node names at most 512 holders:
    /// see [`has_more`](Self::has_more).
    #[must_use]
    pub const fn holders(&self) -> &[Holder] {
        &self.holders
    }

    /// Returns `true` if a node has named 512 holders. Other clients may then hold the resource too, because a node
    /// leaves out the holders that expire last.
    #[must_use]
    pub fn has_more(&self) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.counts && node.seen.holders().len() == HOLDERS_SHOWN_MAX)
    }

    /// Returns `true` if both inspections name the same holder, which means that a majority has the same token. This
    /// comparison distinguishes an extension from a new holder, even without owner texts. A lock that was handed over
    /// to another handle or process keeps its token. A lock that is released and taken again has a new token, even if
    /// the same client takes it. The comparison sends nothing to the nodes.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::Redlock;
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let mut watch = redlock.watch("invoice:42")?;
    /// let mut before = redlock.inspect("invoice:42")?;
    /// while let Some(state) = watch.next(Duration::from_secs(60)) {
    ///     match state.holder() {
    ///         Some(_) if state.same_holder(&before) => println!("it was extended"),
    ///         Some(holder) => println!("taken: {holder}"),
    ///         None => println!("not held"),
    ///     }
    ///     before = state;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn same_holder(&self, other: &Self) -> bool {
        let token = self.holder_token();
        token.is_some() && token == other.holder_token()
    }

    /// Returns the token that a majority has.
    pub(super) fn holder_token(&self) -> Option<&[u8]> {
        let mut nodes = self.nodes.iter();
        let holds = |node: &&InspectedNode| matches!(node.found, Found::Holder { .. });
        self.holder()?;
        nodes.find(holds)?.seen.token()
    }

    /// Returns `true` if a majority may still have the same token, because some nodes have not given an answer that
    /// counts.
    #[cfg(feature = "std")]
    pub(crate) fn may_be_held(&self) -> bool {
        let (nodes, counted) = (
            self.nodes.len(),
            self.nodes.iter().filter(|node| node.counts),
        );
        let tokens = counted.clone().filter_map(|node| node.seen.token());
        let having = |token| tokens.clone().filter(|other| *other == token).count();
        let most = tokens.clone().map(having).max().unwrap_or(0);
        nodes / 2 < most + (nodes - counted.count())
    }

    /// Returns the error text for a resource that has no lock to break.
    pub(super) fn not_held(&self) -> Told {
        let why = match self.holders.is_empty() {
            true => "no client holds it",
            false => "shared locks and permits cannot be broken",
        };
        self.told(why, format!(", so nothing was changed: {self}"))
    }

    /// Returns the error text for keys that another program has written, or whose expiry it has removed.
    pub(super) fn not_ours(&self) -> Told {
        match self.has_long_value() {
            true => self.told(
                "the value of its keys is longer than any token of this library",
                ", so it was not made by it, and cannot be told from others; if its holder has stopped, delete the key \
                 on each node (`DEL`)",
            ),
            false => self.told(
                "its keys have no expiry",
                ", because another program wrote them or removed their expiry, so the lock would never be free; delete \
                 them with `Breaking::AtOnce`",
            ),
        }
    }

    /// Returns `true` if a majority has a value that is longer than any token.
    pub(super) fn has_long_value(&self) -> bool {
        let mut token = self.holder_token().into_iter();
        token.any(|token| TOKEN_BYTES_MAX < token.len())
    }

    fn told(&self, why: &str, rest: impl Into<String>) -> Told {
        Told {
            clause: format!("lock `{}`: {why}", Shown(&self.resource)),
            rest: rest.into(),
        }
    }

    /// Returns `true` if a majority of the nodes has given answers that count.
    fn is_known(&self) -> bool {
        let counted = self.nodes.iter().filter(|node| node.counts).count();
        self.nodes.len() / 2 < counted
    }

    /// Returns what each configured node has, in the order of the configuration.
    #[must_use]
    pub const fn nodes(&self) -> &[InspectedNode] {
        &self.nodes
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, holder) in self.holders.iter().enumerate() {
            let before = if index == 0 { "" } else { "; " };
            write!(f, "{before}{holder}")?;
        }
        match self.holders.first() {
            Some(_) if self.has_more() => f.write_str("; perhaps more")?,
            Some(_) => {}
            None if self.free => f.write_str("free")?,
            None if !self.is_known() => {
                f.write_str("not known, because too few nodes gave an answer that counts")?
            }
            None => f.write_str("neither free nor held by a majority")?,
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let before = if index == 0 { " (" } else { ", " };
            write!(f, "{before}{node}")?;
        }
        f.write_str(")")?;
        let has = |is: fn(&Found) -> bool| self.nodes.iter().any(|node| is(&node.found));
        if has(|found| *found == Found::OtherType) {
            return f.write_str("; delete the key on each node (`DEL`)");
        }
        let is_split = self.holders.is_empty() && !self.free && self.is_known();
        let ends =
            |found: &Found| matches!(found, Found::Copy { left, .. } if *left < Duration::MAX);
        match is_split && has(ends) {
            true => f.write_str("; a copy without a majority ends with its ttl"),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, left) = (Owner(&self.owner), Left(self.valid_for));
        let nodes = if self.nodes == 1 { "node" } else { "nodes" };
        match self.kind {
            HolderKind::Exclusive => f.write_str("held")?,
            HolderKind::Shared => f.write_str("shared")?,
            HolderKind::Permit { permits, slot } => write!(f, "slot {slot} of {permits} held")?,
        }
        write!(f, "{owner} by {} {nodes}{left}", self.nodes)?;
        match self.fencing_token {
            Some(token) => write!(f, ", fencing token {token}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for InspectedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = if self.counts || matches!(self.found, Found::Unknown(_)) {
            ""
        } else {
            ", which does not count"
        };
        write!(f, "{} {}{counts}", self.address, self.found)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Holder { left } => write!(f, "held{}", Left(*left)),
            Self::Copy { owner, token, left } => {
                write!(f, "another token ({token}{}){}", Owner(owner), Left(*left))
            }
            Self::Several { holders, left } => {
                let word = if *holders == 1 { "holder" } else { "holders" };
                write!(f, "{holders} {word}{}", Left(*left))
            }
            Self::OtherType => f.write_str("held by something that is not a lock"),
            Self::Unknown(outcome) => write!(f, "{outcome}"),
        }
    }
}

/// Shows the owner, if known.
struct Owner<'a>(&'a [u8]);

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            label => write!(f, " for {}", Shown(label)),
        }
    }
}

/// The remaining time of a key.
struct Left(Duration);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Duration::MAX => f.write_str(" without an expiry"),
            left => write!(f, ", {} left", Span(left).in_millis()),
        }
    }
}

/// `Debug` prints the same text as `Display`, so that owners are readable.
macro_rules! debug_as_display {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

debug_as_display!(Inspection Holder InspectedNode Found);
