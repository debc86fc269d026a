//! The guards on which the safety of locks depends.
//!
//! In every ordinary build, `guard!(Name, condition)` expands to `condition`. The macro marks a condition on which a
//! guarantee of the library depends: if the condition holds, the guard acts. The list below says what goes wrong
//! without each guard.
//!
//! A build with `RUSTFLAGS="--cfg shearline_mutants"` can disable one guard at a time for the whole process. The
//! condition of that guard is then not evaluated and counts as `false`, so that the guard does not act. The simulator
//! disables one guard after another, and each time an oracle must find the fault (`tests/sim/mutations.rs`, run by
//! `tests/breakages.sh`). In the tests of the library, an environment variable selects the guard, as in
//! `SHEARLINE_MUTANT=DeniedCopyForgotten cargo test --lib engine::tests`. All deliberate faults of the command (`cli`)
//! are patches.
//!
//! # Not here
//!
//! * The module `node::trust` protects against restarted servers, and uses some of these guards.
//! * Other deliberate faults, such as a wrong value, a wrong order or an extra step, are patches in `tests/breakages`.
//! * The engine does not decide which connection carries the bytes, how a connection is closed, or which clock is read.
//!   The simulated worlds have their own switches for these decisions.

/// Returns `condition`, and marks it as the guard `name`. See the module [`guards`](crate::guards).
#[cfg(not(shearline_mutants))]
macro_rules! guard {
    ($name:ident, $condition:expr) => {{
        const _: $crate::guards::Guard = $crate::guards::Guard::$name;
        $condition
    }};
}

/// Returns `condition`, or `false` while the guard with this name is disabled.
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
        /// A guard. The name of a guard says what goes wrong without the guard.
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
    /// Without this guard, a server that the configuration lists under two names has two votes.
    TwinVotes,
    /// Without this guard, a node's grant still counts if its connection is lost before the decision.
    VoteKeptOverReconnect,
    /// Without this guard, any error counts as a certain refusal, so a node that has run the command gets no release.
    ErrorIsDenial,
    /// Without this guard, a node votes for the extension of an adopted lock even if the previous owner may still
    /// release the lock there.
    EveryVoterCounts,
    /// Without this guard, votes for different slots of a permit count together.
    AnySlotCounts,
    /// Without this guard, a node that has not answered a request to move a permit still counts for the old slot.
    MovedSlotCounts,
    /// Without this guard, a fencing token from one slot of a permit counts for the slot to which the permit moves.
    OldNumberCounts,
    /// Without this guard, a call continues to wait after a lost connection has made its outcome certain.
    LostVoteNotJudged,

    // ----- validity -------------------------------------------------------------------------
    /// Without this guard, a lock is returned even if no validity is left.
    ValidityUnchecked,
    /// Without this guard, the validity is checked at the last answer, but not again when the lock is reported.
    StaleNow,

    // ----- releases -------------------------------------------------------------------------
    /// Without this guard, a sent `SET` counts as withdrawn when its connection is lost, so its token is never
    /// released.
    SentSetForgotten,
    /// Without this guard, a refused release is sent again only over the next connection.
    RefusedNotTriedAgain,
    /// Without this guard, the token of a denied `SET` is released.
    DeniedReleased,
    /// Without this guard, the token of a `SET` that the node has certainly refused is released.
    RefusedReleased,
    /// Without this guard, a release is forgotten if the output buffer has no space for it.
    DebtWithoutRoomForgotten,
    /// Without this guard, a handle may leave any number of tokens on the nodes.
    ClaimsUnbounded,
    /// Without this guard, handing over a lock releases the key even on a node that is known to have the token, if an
    /// earlier `SET` may still run there.
    ConfirmedCopyReleased,
    /// Without this guard, a node gets no release after a `SET` was denied or withdrawn, although an earlier `SET` may
    /// have left the token.
    DeniedCopyForgotten,

    // ----- extensions -----------------------------------------------------------------------
    /// Without this guard, an answer to an extension counts even after the old validity has ended.
    ExtensionAfterValidity,
    /// Without this guard, an extension is not sent again after a server has answered that it lacks the script.
    NoscriptExtensionDropped,
    /// Without this guard, if a server lacks the script of an extension, the extension is sent again even if the lock
    /// was released.
    ExtensionRepairedAfterEnd,
    /// Without this guard, only a lock's newest extension stops when the lock ends, and earlier extensions continue.
    OlderExtensionGoesOn,
    /// Without this guard, a lock that is handed over also stays on nodes that do not vote.
    QuarantinedHandedOver,

    // ----- shared locks -----------------------------------------------------------------------
    /// Without this guard, a lock that was downgraded to a shared lock still counts as exclusive, although nodes grant
    /// it to readers.
    DowngradeStaysExclusive,

    // ----- restarts -------------------------------------------------------------------------
    /// Without this guard, the answers of a node that may have forgotten locks still count.
    QuarantineIgnored,
    /// Without this guard, a node votes at the first connection even with a short uptime.
    YoungTrusted,
    /// Without this guard, a node that loads its data or is a replica still votes.
    AlarmIgnored,
    /// Without this guard, a node whose clock was stepped still votes.
    StepIgnored,
    /// Without this guard, a key that a node got after a clock step counts as much for an extension as an older key.
    NewCopySure,
    /// Without this guard, a node with a barrier votes.
    BarrierIgnored,
    /// Without this guard, a node votes even if its marker is not the expected one.
    MarkerIgnored,
    /// Without this guard, a node votes even if the longest ttl in its marker is shorter than that of another node.
    ShorterMarkerVotes,
    /// Without this guard, locks are taken even if a node belongs to another group.
    OtherGroupIgnored,

    // ----- order ----------------------------------------------------------------------------
    /// Without this guard, a `SET` that is still unsent at its node timeout is sent later.
    QueuedSetSentLate,

    // ----- retries --------------------------------------------------------------------------
    /// Without this guard, a nil reply means that another client holds the lock, even if the key is this handle's own
    /// and is being released.
    NilIsHeld,
    /// Without this guard, this handle's own key counts as the cause of a nil reply, even if that key belongs to
    /// another resource.
    AnyKeyIsOurs,

    // ----- time -----------------------------------------------------------------------------
    /// Without this guard, the loss of a lock is not reported.
    LossNotTold,
    /// Without this guard, a call waits beyond its deadline.
    DeadlineIgnored,
    /// Without this guard, a call sends its request to a silent node.
    SuspectAsked,
    /// Without this guard, even a connection that had been up for a while is reopened only after a delay.
    NeverReconnectsAtOnce,
    /// Without this guard, an attempt without a majority does not reconnect nodes that are in back-off.
    NeverReconnectsEarly,

    // ----- outcomes -------------------------------------------------------------------------
    /// Without this guard, the error says that the lock is held, even if too few nodes can vote.
    NoQuorumReportedHeld,
}

#[cfg(shearline_mutants)]
pub use switch::{is_taken_out, number, take_out};

#[cfg(shearline_mutants)]
mod switch {
    use core::sync::atomic::{AtomicU64, Ordering};

    /// The numbers of the disabled guards. Zero means no guard.
    static TAKEN_OUT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    /// Disables the guards with these names (at most two) for the whole process, and enables all other guards.
    pub fn take_out(names: &[&str]) {
        assert!(names.len() <= TAKEN_OUT.len(), "there are too many names");
        for (at, taken_out) in TAKEN_OUT.iter().enumerate() {
            let number = names.get(at).map_or(0, |name| number(name));
            taken_out.store(number, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the guard with this [`number`] is disabled.
    #[must_use]
    pub fn is_taken_out(number: u64) -> bool {
        #[cfg(any(test, feature = "std"))]
        take_out_by_environment();
        let mut taken_out = TAKEN_OUT.iter();
        taken_out.any(|taken_out| taken_out.load(Ordering::Relaxed) == number)
    }

    /// Returns the number of the guard `name` (FNV-1a).
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

    /// Disables the guards that `SHEARLINE_MUTANT` names, for the whole process.
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
