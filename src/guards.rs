//! The guards that safety rests on, by name.
//!
//! `guard!(Name, condition)` is `condition`, and nothing else, in every ordinary build. It says that a
//! promise of the library rests on this line: where the condition holds, the guard acts, and the
//! table below says what goes wrong without it.
//!
//! In a build with `RUSTFLAGS="--cfg shearline_mutants"` one guard at a time can be taken out, for the
//! whole process: its condition is not evaluated then and counts as `false`, so that the guard does
//! not act. The simulator takes out one after the other, and an oracle has to object to each
//! (`tests/sim/mutations.rs`, run by `tests/breakages.sh`). In the tests of the library the environment
//! chooses: `SHEARLINE_MUTANT=DeniedCopyForgotten cargo test --lib engine::tests`. So it does in the command
//! (`cli`), whose breakages are all patches.
//!
//! # Not here
//!
//! * The guard against servers that restart (`node::trust`), which is one of those that use this.
//! * Breakages that are no condition that is missing, but a wrong value, a wrong order or a step too
//!   many: these are patches, in `tests/breakages`.
//! * What the engine does not decide: on which connection bytes travel, how a connection is closed,
//!   and which clock gives the time. Those are switches of the simulated worlds.

/// `condition`, under the name of the guard that it is. See the module [`guards`](crate::guards).
#[cfg(not(shearline_mutants))]
macro_rules! guard {
    ($name:ident, $condition:expr) => {{
        const _: $crate::guards::Guard = $crate::guards::Guard::$name;
        $condition
    }};
}

/// `condition`, or `false` while the guard of this name is taken out.
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
        /// A guard, named by what goes wrong without it.
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
            /// The names of all there are.
            pub const ALL: &[&str] = &[$(stringify!($name)),+];
        }
    };
}

guards! {
    // ----- votes ----------------------------------------------------------------------------
    /// A server that stands in the configuration under two names has two votes.
    TwinVotes,
    /// A yes still counts when its connection is lost before the verdict.
    VoteKeptOverReconnect,
    /// Any error is taken for a certain refusal, so nothing is released where it was run after all.
    ErrorIsDenial,
    /// Of a lock that was handed over, also those nodes count for an extension that the previous owner
    /// may still give back.
    EveryVoterCounts,
    /// The votes of nodes for a permit count together though they gave different slots.
    AnySlotCounts,
    /// A node that was asked to move a permit to another slot, and has not answered, counts for its old one.
    MovedSlotCounts,
    /// A number that a node gave with one slot of a permit counts for the slot to which the permit was moved.
    OldNumberCounts,
    /// A call waits on, though a lost connection has made its outcome certain.
    LostVoteNotJudged,

    // ----- validity -------------------------------------------------------------------------
    /// A lock is returned also when no validity is left.
    ValidityUnchecked,
    /// Validity is judged with the time of the last answer, and not again when the lock is reported.
    StaleNow,

    // ----- releases and debts ---------------------------------------------------------------
    /// A `SET` that has left is taken back when its connection is lost: nothing is owed for it.
    SentSetForgotten,
    /// A release that was refused waits for the next connection.
    RefusedNotTriedAgain,
    /// Where a `SET` was denied, its token is released all the same.
    DeniedReleased,
    /// Where a `SET` was refused for certain, its token is released all the same.
    RefusedReleased,
    /// What is owed and finds no room is forgotten.
    DebtWithoutRoomForgotten,
    /// There may be any number of tokens.
    ClaimsUnbounded,
    /// Where a copy was denied or taken back, no token is released, though an earlier `SET` may have
    /// left one.
    DeniedCopyForgotten,

    // ----- extensions -----------------------------------------------------------------------
    /// An answer counts that came when the old validity had run out.
    ExtensionAfterValidity,
    /// An extension that met a server without the script is not asked again.
    NoscriptExtensionDropped,
    /// An extension that met a server without the script goes on though its lock was given away.
    ExtensionRepairedAfterEnd,
    /// Only the newest extension of a lock ends with it, and not those before it that are open.
    OlderExtensionGoesOn,
    /// A lock that is handed over stands also on nodes that do not vote.
    QuarantinedHandedOver,

    // ----- shared locks -----------------------------------------------------------------------
    /// A lock that becomes a shared one is still believed exclusive, though nodes let readers in.
    DowngradeStaysExclusive,

    // ----- restarts -------------------------------------------------------------------------
    /// What a node says that may have forgotten counts as ever.
    QuarantineIgnored,
    /// A node that is met for the first time votes, however short a time it has been up.
    YoungTrusted,
    /// A node that says over its connection that it loads or follows another goes on voting.
    AlarmIgnored,
    /// A node whose clock was stepped goes on voting.
    StepIgnored,
    /// A copy that a node got after its clock was stepped counts for an extension like one from before.
    NewCopySure,
    /// A node behind a barrier is counted.
    BarrierIgnored,
    /// A node whose marker is not the one given counts all the same.
    MarkerIgnored,
    /// A node whose marker tells of a shorter longest ttl than another's votes.
    ShorterMarkerVotes,
    /// Locks are taken though a node is another cluster's.
    OtherClusterIgnored,

    // ----- order ----------------------------------------------------------------------------
    /// A `SET` that has not left by its node timeout is sent later.
    QueuedSetSentLate,

    // ----- retries --------------------------------------------------------------------------
    /// A nil that is due to a key of our own, whose release is under way, counts as held.
    NilIsHeld,
    /// A nil is taken for due to a key of our own, whatever resource is being released.
    AnyKeyIsOurs,

    // ----- time -----------------------------------------------------------------------------
    /// The end of a lock is not reported.
    LossNotTold,
    /// A caller's deadline is not kept.
    DeadlineIgnored,
    /// A node that is silent is asked all the same.
    SuspectAsked,
    /// A connection that has lasted is opened again after a delay, as any other.
    NeverReconnectsAtOnce,
    /// An attempt that is short of a quorum leaves nodes in back-off alone.
    NeverReconnectsEarly,

    // ----- outcomes -------------------------------------------------------------------------
    /// Too few nodes that can vote are reported as a lock that is held.
    NoQuorumReportedHeld,
}

#[cfg(shearline_mutants)]
pub use switch::{is_taken_out, number, take_out};

#[cfg(shearline_mutants)]
mod switch {
    use core::sync::atomic::{AtomicU64, Ordering};

    /// The numbers of what is taken out; 0: nothing.
    static TAKEN_OUT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    /// Takes out the guards of these names for the whole process, two at most, and puts back all others.
    pub fn take_out(names: &[&str]) {
        assert!(names.len() <= TAKEN_OUT.len(), "there are too many names");
        for (at, taken_out) in TAKEN_OUT.iter().enumerate() {
            let number = names.get(at).map_or(0, |name| number(name));
            taken_out.store(number, Ordering::Relaxed);
        }
    }

    /// Returns `true` if what has this [`number`] is taken out.
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

    /// What `SHEARLINE_MUTANT` says, for all of this process.
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
