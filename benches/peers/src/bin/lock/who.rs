//! The contestants.

use std::fmt;

use clap::ValueEnum;

/// A client and its interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Who {
    Floor,
    FloorAgain,
    FloorAll,
    FloorTls,
    FloorSpinning,
    FloorSpinningAgain,
    FloorBatched,
    FloorBatchedAgain,
    FloorBatchedAll,
    FloorThreads,
    FloorThreadsAgain,
    Local,
    LocalAgain,
    LocalSpinning,
    LocalFenced,
    LocalShared,
    LocalPermit,
    LocalTls,
    Redlock,
    RedlockTls,
    RedlockTasks,
    RedlockJoined,
    RedlockThreads,
    RslockCurrent,
    RslockMulti,
    MultiplexedCurrent,
    MultiplexedMulti,
}

impl Who {
    /// Returns `true` if this client speaks TLS.
    pub(crate) const fn is_over_tls(self) -> bool {
        matches!(self, Self::FloorTls | Self::LocalTls | Self::RedlockTls)
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RSLOCK: &str = concat!("rslock ", env!("RSLOCK_VERSION"));
        const REDIS: &str = concat!("redis ", env!("REDIS_VERSION"), " multiplexed");
        let (name, way) = match self {
            Self::Floor => ("floor", ""),
            Self::FloorAgain => ("floor", "against itself"),
            Self::FloorAll => ("floor", "waiting for all"),
            Self::FloorTls => ("floor", "TLS"),
            Self::FloorSpinning => ("floor", "spinning"),
            Self::FloorSpinningAgain => ("floor", "spinning, once more"),
            Self::FloorBatched => ("floor", "batched"),
            Self::FloorBatchedAgain => ("floor", "batched, against itself"),
            Self::FloorBatchedAll => ("floor", "batched, waiting for all"),
            Self::FloorThreads => ("floor", "threads"),
            Self::FloorThreadsAgain => ("floor", "threads, against itself"),
            Self::Local => ("`LocalRedlock`", ""),
            Self::LocalAgain => ("`LocalRedlock`", "against itself"),
            Self::LocalSpinning => ("`LocalRedlock`", "`spin`"),
            Self::LocalFenced => ("`LocalRedlock`", "with a fencing token"),
            Self::LocalShared => ("`LocalRedlock`", "a shared lock"),
            Self::LocalPermit => ("`LocalRedlock`", "one of 16 permits"),
            Self::LocalTls => ("`LocalRedlock`", "TLS"),
            Self::Redlock => ("`Redlock`", ""),
            Self::RedlockTls => ("`Redlock`", "TLS"),
            Self::RedlockTasks => ("`Redlock`", "tasks on a tokio thread"),
            Self::RedlockJoined => ("`Redlock`", "futures joined on a thread"),
            Self::RedlockThreads => ("`Redlock`", "threads"),
            Self::RslockCurrent => (RSLOCK, "one tokio thread"),
            Self::RslockMulti => (RSLOCK, "tokio multi-thread"),
            Self::MultiplexedCurrent => (REDIS, "one tokio thread"),
            Self::MultiplexedMulti => (REDIS, "tokio multi-thread"),
        };
        f.write_str(name)?;
        match way {
            "" => Ok(()),
            way => write!(f, ", {way}"),
        }
    }
}
