//! A node: the embedded store behind a model of a server process and its kernel.
//!
//! As measured on `redis-server`: one thread; in each turn of its loop it reads from every
//! connection that is readable, in an order of its own, runs what is complete, and accepts new
//! connections after that. While it is stopped its kernel goes on accepting connections and bytes,
//! and all of them are run when it continues; a connection that was reset is still read to its end,
//! unless it had not been accepted. Keys expire by its clock, also while it is stopped.

use std::collections::VecDeque;

use shearline::embedded::Store;

use crate::clock::{Clock, Time};

/// Bytes that the server reads from one connection before it looks at the next.
pub(crate) const READ_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// The process runs. If not, connections are refused.
    pub(crate) up: bool,
    pub(crate) stalled: bool,
    /// Connections with something to read, in the order of the kernel's list.
    pub(crate) ready: VecDeque<usize>,
    pub(crate) backlog: VecDeque<usize>,
    pub(crate) open: Vec<usize>,
    /// It will run at the next `Serve`.
    pub(crate) serving: bool,
    pub(crate) mood: Mood,
    /// The mood of whatever began last, so that an older end does not end it.
    pub(crate) mood_number: u32,
    /// What was on disk, newest last.
    pub(crate) snapshots: VecDeque<(Time, Store)>,
    pub(crate) starts: u64,
}

/// What a server answers instead of doing as it is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mood {
    Fine,
    Loading,
    ReadOnly,
    OutOfMemory,
    DiskFull,
    Busy,
    /// New clients have to give a password.
    Locked,
}

pub(crate) const MOODS: [Mood; 6] = [
    Mood::Loading,
    Mood::ReadOnly,
    Mood::OutOfMemory,
    Mood::DiskFull,
    Mood::Busy,
    Mood::Locked,
];

impl Server {
    pub(crate) fn new(number: u64, clock: Clock) -> Self {
        Self {
            store: Store::new(number, clock.show(0)),
            clock,
            up: true,
            stalled: false,
            ready: VecDeque::new(),
            backlog: VecDeque::new(),
            open: Vec::new(),
            serving: false,
            mood: Mood::Fine,
            mood_number: 0,
            snapshots: VecDeque::new(),
            starts: 0,
        }
    }
}

impl Mood {
    /// What the server answers to `words` instead of executing them. `present`: the key of the
    /// command is there.
    pub(crate) fn answer(self, words: &[&[u8]], present: bool) -> Option<&'static [u8]> {
        let verb = words.first()?;
        let is = |names: &[&[u8]]| names.contains(verb);
        let set = is(&[b"SET"]);
        let script = is(&[b"EVAL", b"EVALSHA"]);
        let writes = set || script || is(&[b"DELIFEQ", b"DEL", b"PEXPIRE"]);
        let greeting = is(&[b"HELLO", b"AUTH", b"INFO"]);
        match self {
            Self::Fine => None,
            Self::Locked => None,
            Self::Loading if greeting => None,
            Self::Loading => Some(b"-LOADING Redis is loading the dataset in memory\r\n"),
            Self::Busy if is(&[b"HELLO", b"AUTH"]) => None,
            Self::Busy => Some(
                b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                  NOSAVE.\r\n",
            ),
            Self::ReadOnly if script && verb == b"EVALSHA" => {
                Some(b"-NOSCRIPT No matching script. Please use EVAL.\r\n")
            }
            Self::ReadOnly if script && present => {
                Some(b"-READONLY You can't write against a read only replica. script: x\r\n")
            }
            Self::ReadOnly if set || is(&[b"DELIFEQ", b"DEL"]) => {
                Some(b"-READONLY You can't write against a read only replica.\r\n")
            }
            Self::OutOfMemory if set => {
                Some(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n")
            }
            Self::DiskFull if set || (writes && present) => Some(
                b"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
                  persist to disk.\r\n",
            ),
            Self::ReadOnly | Self::OutOfMemory | Self::DiskFull => None,
        }
    }
}
