//! Quarantine: from when on the word of a server counts again that has forgotten, or may have.
//!
//! Under a guard no vote counts that was asked for
//!
//! * of a server in a life that began without its memory, before the longest ttl of all has passed
//!   since it was *killed*;
//! * by a client that has read from the server that it loads or follows another, before the longest
//!   ttl of all has passed since that.
//!
//! Both are a little less than what clients keep to, who learn of it later and do not know true time.
//!
//! # What it does not see
//!
//! Of a server that has forgotten twice, what it did in the life between. Nothing is asked for where
//! nobody was told the longest ttl.

use super::ledger::Entry;
use super::{Reading, Said};
use crate::clock::{MILLI, Time};
use crate::plan::{Guard, Plan};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Quarantine {
    /// How long it is at least, if there is any.
    span: Option<Time>,
    /// By server: when it was killed last that forgot then, and which life came after that.
    forgot: Vec<Option<(Time, u32)>>,
    /// By client and server: when a client has read last that it may forget.
    alarms: Vec<Vec<Option<Time>>>,
}

impl Quarantine {
    pub(super) fn new(plan: &Plan) -> Self {
        let told = plan.guard == Guard::Observed;
        Self {
            span: told.then(|| plan.max_ttl() * MILLI),
            forgot: vec![None; plan.servers],
            alarms: vec![vec![None; plan.servers]; plan.peers()],
        }
    }

    /// Another process begins, which has heard of nothing.
    pub(super) fn born(&mut self, peer: usize) {
        self.alarms[peer].fill(None);
    }

    /// A client has read the answer to a command that is about a lock.
    pub(super) fn heard(&mut self, client: usize, server: usize, answer: &Reading) {
        if matches!(answer.said, Said::Refused(code) if code.may_forget()) {
            self.alarms[client][server] = Some(answer.at);
        }
    }

    /// Whether the answer of `server` to what `client` has asked counts for nothing.
    pub(super) fn silences(&self, client: usize, server: usize, entry: &Entry) -> bool {
        let Some(span) = self.span else {
            return false;
        };
        let forgot = self.forgot[server].filter(|(_, life)| *life <= entry.life);
        let alarm = self.alarms[client][server].filter(|alarm| *alarm < entry.sent);
        let since = forgot.map(|(killed_at, _)| killed_at).max(alarm);
        since.is_some_and(|since| entry.sent < since + span)
    }
}

impl super::Oracle {
    /// A server has begun a life without its memory, or without the newest of it.
    pub(crate) fn forgot(&mut self, server: usize, killed_at: Time, life: u32) {
        self.quarantine.forgot[server] = Some((killed_at, life));
    }
}
