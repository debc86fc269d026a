//! Mutations: each takes out one guard of the algorithm, to show that the tests would notice.
//!
//! They are there only in a build with `RUSTFLAGS="--cfg shearline_mutants"`, for the simulator and
//! for readers who doubt a test. No feature and no option leads here. The choice holds for the
//! whole process, because the engine has no place of its own for it: a test that tries several
//! either starts a process for each, or tries one after the other with fresh engines.
//!
//! In the tests of the library itself the environment chooses. Those that the simulator does
//! not look for (`STORIES` in `tests/sim/mutations.rs`) are noticed by the stories of the engine:
//! `SHEARLINE_MUTANT=ClaimsUnbounded cargo test --lib engine::tests`.
//! Those of nodes that carry markers are noticed in both:
//! `cargo test --lib --features embedded strict`.
//!
//! # Not here
//!
//! * What the engine does not decide: on which connection bytes travel (it has one for each node;
//!   a release on another than its `SET` is a matter of the driver), how a connection is closed,
//!   and which clock gives the time.

use core::sync::atomic::{AtomicU8, Ordering};
use core::time::Duration;

use crate::engine::Wake;
use crate::time::Instant;

macro_rules! mutants {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A guard that can be taken out.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[non_exhaustive]
        pub enum Mutant {
            $($(#[$doc])+ $name,)+
        }

        impl Mutant {
            /// Every one there is.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name, as [`Mutant::from_name`] reads it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

mutants! {
    // ----- votes ----------------------------------------------------------------------------
    /// One vote fewer than a majority is enough.
    QuorumOffByOne,
    /// A majority of the nodes that can vote is enough, however many are configured.
    QuorumOfConnected,
    /// A server that stands in the configuration under two names has two votes.
    TwinVotes,
    /// A yes still counts when its connection is lost before the verdict.
    VoteKeptOverReconnect,
    /// Any error is taken for a certain refusal, so nothing is released where it was run after all.
    ErrorIsDenial,
    /// Of a lock that was handed over, also those nodes count for an extension that the previous
    /// owner may still give back.
    EveryVoterCounts,
    /// A call waits on, though a lost connection has made its outcome certain.
    LostVoteNotJudged,
    /// A call waits on, though a no or an error has made its outcome certain.
    RefusalNotJudged,

    // ----- validity -------------------------------------------------------------------------
    /// A lock is returned also when no validity is left.
    ValidityUnchecked,
    /// Validity is judged with the time of the last answer, and not again when the lock is
    /// reported.
    StaleNow,
    /// Clocks are taken to run alike: nothing is taken off a validity.
    DriftIgnored,
    /// Every validity ends a tick (1 ms) later.
    ValidUntilLater,
    /// The validity of a new lock counts from the verdict and not from before the send.
    ValidityFromAnswer,
    /// The validity of every attempt counts from before the first one.
    ValidityFromFirstAttempt,

    // ----- keys and tokens ------------------------------------------------------------------
    /// The expiry is left out of a `SET`.
    SetWithoutPx,
    /// `SET` overwrites whatever there is.
    SetWithoutNx,
    /// A release deletes the key whatever token it holds.
    ReleaseByPlainDel,
    /// All attempts of a round use one token, so a late release of one hits the next.
    OneTokenPerRound,

    // ----- releases and debts ---------------------------------------------------------------
    /// A release goes only to the nodes of the majority: a later OK is forgotten.
    StragglerForgotten,
    /// No release goes behind a `SET` that is unanswered.
    UnansweredNotReleased,
    /// What a cancelled round may have won is forgotten.
    CancelNotReleased,
    /// A lock whose validity has run out is not released any more.
    ExpiredNotReleased,
    /// A lock is handed out of care without a release behind its unanswered `SET`s.
    DetachForgetsStragglers,
    /// A release that cannot go out, or whose connection was lost, is forgotten.
    DebtForgotten,
    /// A `SET` that has left is taken back when its connection is lost: nothing is owed for it.
    SentSetForgotten,
    /// An unanswered `SET` is taken to expire a ttl after it was sent, and its debt with it.
    DebtOnClientTime,
    /// A debt ends when the key would have expired without its extension.
    DebtForgetsExtension,
    /// What is owed goes out behind the `SET`s that waited for the connection.
    DebtsAfterSets,
    /// A release that met a server without the script counts as done.
    NoscriptReleaseDropped,
    /// Time ends also a debt of which it is not known when its key expires.
    UnknownDebtEnds,
    /// An extension whose connection was lost counts as one that was not done.
    LostExtensionIsNone,
    /// A release that was refused waits for the next connection.
    RefusedNotTriedAgain,
    /// Where a `SET` was denied, its token is released all the same.
    DeniedReleased,
    /// Where a `SET` was refused for certain, its token is released all the same.
    RefusedReleased,
    /// What is owed and finds no room is forgotten.
    DebtWithoutRoomForgotten,
    /// An extension that is unanswered, or was answered by an error that does not say whether it was
    /// run, leaves the expiry known.
    ExtensionLeavesExpiryKnown,
    /// There may be any number of tokens.
    ClaimsUnbounded,
    /// Where a copy was denied or taken back, no token is released, though an earlier `SET` may have
    /// left one.
    DeniedCopyForgotten,

    // ----- extensions -----------------------------------------------------------------------
    /// A lock that is over can be extended.
    ExtensionRevives,
    /// The end that is confirmed replaces a later one.
    ExtensionShortens,
    /// The expiry is set whatever it was, and whatever token the key holds.
    ExtendByPexpire,
    /// The new validity counts from the answer and not from before the send.
    ExtensionFromAnswer,
    /// An answer counts that came when the old validity had run out.
    ExtensionAfterValidity,
    /// A majority that misses the key leaves the lock valid until its old end.
    LostKeepsValid,
    /// An extension that came to nothing gives its keys back.
    UnconfirmedGivesBack,
    /// An extension that met a server without the script is not asked again.
    NoscriptExtensionDropped,
    /// An extension that met a server without the script goes on though its lock was given away.
    ExtensionRepairedAfterEnd,
    /// The end of a lock is reported as late as an extension says that its caller has cancelled.
    CancelledExtensionStands,
    /// A lock that was extended has the ttl that it was taken with.
    ExtensionForgetsTtl,
    /// Only time tells of the end of a lock, and not a majority that misses it.
    LostVoteNotTold,
    /// An extension goes on when the lock was reported as over.
    ExpiredExtensionStands,
    /// A cancelled extension takes back also what another one has told.
    CancelledExtensionUndoesOthers,
    /// Only the newest extension of a lock ends with it, and not those before it that are open.
    OlderExtensionGoesOn,
    /// A lock is handed over with an extension that goes on.
    HandOverLeavesExtension,
    /// A lock that is handed over stands also on nodes that do not vote.
    QuarantinedHandedOver,

    // ----- confirmations --------------------------------------------------------------------
    /// What a confirmation finds left counts from the answer and not from before the send.
    ConfirmationFromAnswer,
    /// A confirmation believes the node that keeps the lock for longest.
    ConfirmationByLongest,
    /// A lock that was reported as over lives on when a majority still has it.
    ConfirmationRevives,
    /// The answers to an extension count until the end that the lock had before a confirmation found an
    /// earlier one.
    EarlierEndForgotten,
    /// An extension that was asked for before a confirmation found an earlier end keeps the later one.
    EarlierEndOverruled,

    // ----- restarts -------------------------------------------------------------------------
    /// A node that may have forgotten votes for a new lock.
    QuarantinedVotes,
    /// A node that may have forgotten confirms an extension.
    QuarantinedExtends,
    /// A quarantine counts from the loss of the connection.
    QuarantineFromBreak,
    /// A node that does not say any more who it is counts as the one that it was.
    UnreadableIsUnchanged,
    /// A node that is met for the first time votes, however short a time it has been up.
    YoungTrusted,
    /// A node that says over its connection that it loads or follows another goes on voting.
    AlarmIgnored,
    /// A node whose clock was stepped goes on voting.
    StepIgnored,
    /// A node behind a barrier is counted.
    BarrierIgnored,
    /// A node whose marker is not the one given counts all the same.
    MarkerIgnored,
    /// A marker that is written again, or raised, is written without a barrier.
    JoinedWithoutBarrier,
    /// A node whose marker tells of a shorter longest ttl than another's votes.
    ShorterMarkerVotes,
    /// Locks are taken though a node is another cluster's.
    OtherClusterIgnored,
    /// A node that lacks the key of a held lock gets it as soon as that is known.
    TopUpBeforeMajority,
    /// A copy for a node that lacks it has the full ttl.
    TopUpWithFullTtl,
    /// A copy goes out behind the release of its lock.
    TopUpAfterRelease,

    // ----- order ----------------------------------------------------------------------------
    /// A `SET` that has not left by its node timeout is sent later.
    QueuedSetSentLate,
    /// No timer is armed for the node timeout of a node that does not vote.
    LeftOutNotWatched,
    /// An extension that has not left when its round is over is sent later.
    QueuedExtensionSentLate,
    /// A confirmation that has not left when its round is over is sent later.
    QueuedConfirmationSentLate,
    /// While two `SET`s are in flight, the second command gets the answer to the first.
    ReplyToNextRound,
    /// What was unanswered on a lost connection stands in front of the next one's commands.
    FifoKept,
    /// Half a reply from a lost connection is continued by the next one's bytes.
    InboxKept,
    /// A command of which one byte has left is taken back.
    BegunTakenBack,

    // ----- retries --------------------------------------------------------------------------
    /// A nil that is due to a key of our own, whose release is under way, counts as held.
    NilIsHeld,
    /// A `SET` that met a key of our own is sent again before the release of that key.
    RetryBeforeRelease,
    /// A `SET` that met a key of our own is sent again though its round was cancelled or decided.
    RetryAfterEnd,
    /// The next attempt follows after a tick.
    RetryAtOnce,
    /// The next attempt follows after the shortest delay, never after a random one.
    RetryInStep,
    /// A nil is taken for due to a key of our own, whatever resource is being released.
    AnyKeyIsOurs,

    // ----- time -----------------------------------------------------------------------------
    /// The end of a lock is not reported.
    LossNotTold,
    /// The end of a lock is reported a tick after it.
    LossToldLate,
    /// A connection that is lost is not opened again.
    NeverReconnects,
    /// The engine wants no wake-up for what is armed.
    SleepsForEver,
    /// It wants to be woken 5 ms late for a connection that is to be tried, or takes too long.
    WokenLateForConnection,
    /// It wants to be woken 5 ms late for a node that has been silent.
    WokenLateForSilence,
    /// It wants to be woken 5 ms late for the end of a node timeout.
    WokenLateForNodeTimeout,
    /// It wants to be woken 5 ms late for the next attempt.
    WokenLateForRetry,
    /// It wants to be woken 5 ms late for a caller's deadline.
    WokenLateForDeadline,
    /// It wants to be woken 5 ms late for the end of a lock.
    WokenLateForExpiry,
    /// It wants to be woken 5 ms late for a release that is owed.
    WokenLateForDebt,
    /// A caller's deadline is not kept.
    DeadlineIgnored,
    /// A vote is waited for however long it takes.
    NodeTimeoutIgnored,
    /// A node that is silent for ever keeps its connection.
    DeadAfterIgnored,
    /// A node that is silent is asked all the same.
    SuspectAsked,
    /// What a call had open stays open after its outcome was reported.
    RoundsKept,
    /// The timer of a call goes on when its outcome is certain.
    RoundTimerKept,
    /// The timer of a lock goes on when it is released.
    ClaimTimerKept,
    /// There is room for any number of commands to a node.
    BoundIgnored,
    /// A connection that has lasted is opened again after a delay, as any other.
    NeverReconnectsAtOnce,
    /// An attempt that is short of a quorum leaves nodes in back-off alone.
    NeverReconnectsEarly,
    /// A node that is suspect loses its connection.
    SuspectGivenUp,
    /// The end of the time for a handshake also ends a connection whose handshake is done.
    HandshakeDoneGivenUp,
    /// A node that was suspect is never asked again.
    SuspectForEver,
    /// A node is suspect after four node timeouts, however short these are.
    SuspectWithoutFloor,
    /// Clients that lost a node at the same moment try to reach it again at the same moments.
    BackoffInStep,

    // ----- outcomes -------------------------------------------------------------------------
    /// Too few nodes that can vote are reported as a lock that is held.
    NoQuorumReportedHeld,
    /// A majority that misses the key is reported as a release that was done.
    NotHeldReportedReleased,
    /// How long a node took is counted from the call, and not from the attempt.
    LatencySinceCall,
    /// How long a call took is counted from its last attempt.
    ElapsedSinceAttempt,
}

/// The one that is chosen, counted from 1; none at 0.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

const _: () = assert!(Mutant::ALL.len() < u8::MAX as usize);

/// Takes one guard out for the whole process, or puts all of them back.
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.store(mutant.map_or(0, number), Ordering::Relaxed);
}

impl Mutant {
    /// The one of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|mutant| mutant.name() == name)
    }

    pub(crate) fn is_chosen(self) -> bool {
        #[cfg(test)]
        choose_by_environment();
        CHOSEN.load(Ordering::Relaxed) == number(self)
    }
}

/// When the engine wants to be woken: at `at`, or later where that guard is taken out.
pub(crate) fn woken_at(at: Instant, wake: Wake) -> Instant {
    let late = match wake {
        Wake::Output => return at,
        Wake::Connection => Mutant::WokenLateForConnection,
        Wake::Silence => Mutant::WokenLateForSilence,
        Wake::NodeTimeout => Mutant::WokenLateForNodeTimeout,
        Wake::Retry => Mutant::WokenLateForRetry,
        Wake::Deadline => Mutant::WokenLateForDeadline,
        Wake::Expiry => Mutant::WokenLateForExpiry,
        Wake::Debt => Mutant::WokenLateForDebt,
    };
    match late.is_chosen() {
        true => at.saturating_add(Duration::from_millis(5)),
        false => at,
    }
}

const fn number(mutant: Mutant) -> u8 {
    mutant as u8 + 1
}

/// `SHEARLINE_MUTANT`, for all tests of this process.
#[cfg(test)]
fn choose_by_environment() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if let Ok(name) = std::env::var("SHEARLINE_MUTANT") {
            choose(Some(
                Mutant::from_name(&name).expect("the name of a mutant"),
            ));
        }
    });
}
