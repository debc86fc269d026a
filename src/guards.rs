//! The names of the guards on which safety depends.
//!
//! In every ordinary build, `guard!(Name, condition)` is `condition`, and nothing else. It marks a line on which a
//! promise of the library depends: if the condition holds, the guard acts. The list below says what goes wrong without
//! each guard.
//!
//! In a build with `RUSTFLAGS="--cfg shearline_mutants"` one guard at a time can be taken out for the whole process:
//! its condition is then not evaluated and counts as `false`, so that the guard does not act. The simulator takes out
//! one guard after the other, and each time an oracle has to find the fault (`tests/sim/mutations.rs`, run by
//! `tests/breakages.sh`). In the tests of the library, a variable chooses the guard:
//! `SHEARLINE_MUTANT=DeniedCopyForgotten cargo test --lib engine::tests`. The command (`cli`) works in the same way;
//! all of its breakages are patches.
//!
//! # Not here
//!
//! * The guard against servers that restart (`node::trust`). It uses some of these guards.
//! * Breakages other than a missing condition: a wrong value, a wrong order or an extra step. They are patches, in
//!   `tests/breakages`.
//! * Things that the engine does not decide: which connection carries the bytes, how a connection is closed, and which
//!   clock gives the time. The simulated worlds have switches for them.

/// Returns `condition`, which is the guard with this name. See the module [`guards`](crate::guards).
#[cfg(not(shearline_mutants))]
macro_rules! guard {
    ($name:ident, $condition:expr) => {{
        const _: $crate::guards::Guard = $crate::guards::Guard::$name;
        $condition
    }};
}

/// Returns `condition`, or `false` while the guard with this name is taken out.
#[cfg(shearline_mutants)]
macro_rules! guard {
    ($name:ident, $condition:expr) => {{
        const _: $crate::guards::Guard = $crate::guards::Guard::$name;
        !$crate::guards::is_taken_out(const { $crate::guards::number(stringify!($name)) })
            && $condition
    }};
}

macro_rules! guards {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A guard. The name says what goes wrong without it.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[cfg_attr(
            not(shearline_mutants),
            expect(unreachable_pub, reason = "the simulator asks for it by name")
        )]
        pub enum Guard {
            $($(#[$doc])+ $name,)+
        }

        #[cfg(shearline_mutants)]
        impl Guard {
            /// The names of all guards.
            pub const ALL: &[&str] = &[$(stringify!($name)),+];
        }
    };
}

guards! {
    // ----- votes ----------------------------------------------------------------------------
    /// A server that the configuration lists under two names has two votes.
    TwinVotes,
    /// A node's yes still counts when its connection is lost before the decision.
    VoteKeptOverReconnect,
    /// Any error counts as a certain refusal, so nothing is released on a node that ran the command after all.
    ErrorIsDenial,
    /// An extension of a lock that was handed over also counts nodes on which the previous owner may still release it.
    EveryVoterCounts,
    /// Votes for a permit count together although the nodes gave different slots.
    AnySlotCounts,
    /// A node counts for the old slot of a permit, although it was asked to move it and has not answered.
    MovedSlotCounts,
    /// A number that a node gave with one slot of a permit counts for the slot to which the permit moves.
    OldNumberCounts,
    /// A call continues to wait, although a lost connection has made its outcome certain.
    LostVoteNotJudged,

    // ----- validity -------------------------------------------------------------------------
    /// A lock is returned even if no validity is left.
    ValidityUnchecked,
    /// The validity is checked at the time of the last answer, but not again when the lock is reported.
    StaleNow,

    // ----- releases and debts ---------------------------------------------------------------
    /// A `SET` that was sent counts as withdrawn when its connection is lost, so it leaves no debt.
    SentSetForgotten,
    /// A release that was refused is tried again only over the next connection.
    RefusedNotTriedAgain,
    /// The token of a `SET` is released although the node denied it.
    DeniedReleased,
    /// The token of a `SET` is released although the node certainly refused it.
    RefusedReleased,
    /// A debt is forgotten if there is no room to send it.
    DebtWithoutRoomForgotten,
    /// The number of tokens is not limited.
    ClaimsUnbounded,
    /// A lock that is handed over loses a copy on which its end rests, because an earlier `SET` may still run there.
    ConfirmedCopyReleased,
    /// If a copy was denied or taken back, no token is released, although an earlier `SET` may have left one.
    DeniedCopyForgotten,

    // ----- extensions -----------------------------------------------------------------------
    /// An answer counts although it came after the old validity had run out.
    ExtensionAfterValidity,
    /// An extension is not sent again after it met a server without the script.
    NoscriptExtensionDropped,
    /// An extension that met a server without the script is sent again although its lock was released.
    ExtensionRepairedAfterEnd,
    /// When a lock ends, only its newest extension ends too, and earlier ones continue.
    OlderExtensionGoesOn,
    /// A lock that is handed over also stays on nodes that do not vote.
    QuarantinedHandedOver,

    // ----- shared locks -----------------------------------------------------------------------
    /// A lock that became a shared one still counts as exclusive, although nodes let readers in.
    DowngradeStaysExclusive,

    // ----- restarts -------------------------------------------------------------------------
    /// The answers of a node that may have forgotten locks still count.
    QuarantineIgnored,
    /// A node that this handle has just met votes, however short its uptime is.
    YoungTrusted,
    /// A node that says that it loads its data or follows another server still votes.
    AlarmIgnored,
    /// A node whose clock was stepped still votes.
    StepIgnored,
    /// A copy that a node got after a step of its clock counts for an extension like an older one.
    NewCopySure,
    /// A node with a barrier counts.
    BarrierIgnored,
    /// A node with another marker than the expected one counts.
    MarkerIgnored,
    /// A node votes although its marker has a shorter longest ttl than another node's.
    ShorterMarkerVotes,
    /// Locks are taken although a node belongs to another cluster.
    OtherClusterIgnored,

    // ----- order ----------------------------------------------------------------------------
    /// A `SET` that has not left by its node timeout is sent later.
    QueuedSetSentLate,

    // ----- retries --------------------------------------------------------------------------
    /// A nil counts as held, although it is due to a key of our own whose release is under way.
    NilIsHeld,
    /// A nil counts as due to a key of our own, whichever resource is being released.
    AnyKeyIsOurs,

    // ----- time -----------------------------------------------------------------------------
    /// The end of a lock is not reported.
    LossNotTold,
    /// A caller's deadline is not kept.
    DeadlineIgnored,
    /// A silent node is asked.
    SuspectAsked,
    /// A connection that has lasted is opened again only after a delay, like any other.
    NeverReconnectsAtOnce,
    /// An attempt that lacks a majority leaves nodes in back-off alone.
    NeverReconnectsEarly,

    // ----- outcomes -------------------------------------------------------------------------
    /// If too few nodes can vote, the error says that the lock is held.
    NoQuorumReportedHeld,
}

#[cfg(shearline_mutants)]
pub use switch::{is_taken_out, number, take_out};

#[cfg(shearline_mutants)]
mod switch {
    use core::sync::atomic::{AtomicU64, Ordering};

    /// The numbers of the guards that are taken out. Zero stands for none.
    static TAKEN_OUT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    /// Takes out the guards with these names for the whole process, at most two, and puts back all others.
    pub fn take_out(names: &[&str]) {
        assert!(names.len() <= TAKEN_OUT.len(), "there are too many names");
        for (at, taken_out) in TAKEN_OUT.iter().enumerate() {
            let number = names.get(at).map_or(0, |name| number(name));
            taken_out.store(number, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the guard with this [`number`] is taken out.
    #[must_use]
    pub fn is_taken_out(number: u64) -> bool {
        #[cfg(any(test, feature = "std"))]
        take_out_by_environment();
        let mut taken_out = TAKEN_OUT.iter();
        taken_out.any(|taken_out| taken_out.load(Ordering::Relaxed) == number)
    }

    /// Returns the number that stands for `name` (FNV-1a).
    #[must_use]
    pub const fn number(name: &str) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut at = 0;
        while at < name.len() {
            hash = (hash ^ name.as_bytes()[at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        hash
    }

    /// Takes out the guards that `SHEARLINE_MUTANT` names, for the whole process.
    #[cfg(any(test, feature = "std"))]
    fn take_out_by_environment() {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            if let Ok(name) = std::env::var("SHEARLINE_MUTANT") {
                take_out(&[&name]);
            }
        });
    }
}
