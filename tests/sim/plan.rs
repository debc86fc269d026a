//! The numbers of a world: the sizes of its parts, and the rates of faults.
//!
//! Every world draws its own numbers, and many rates are zero in many worlds. Worlds with few faults of every kind are
//! similar, but worlds with many faults of a few kinds differ.

use crate::clock::{MICRO, MILLI, SECOND, Time};
use crate::entropy::Entropy;
use crate::faults::FAULTS;
use crate::faults::Fault::{self, *};
use crate::network::KEEP_ALIVE;
use crate::theme;

/// The password of clients, where servers want one.
const PASSWORD: &str = "secret";

/// Below this many parts in a thousand million two clocks never look stepped, however they drift: a
/// half of 500 parts in a million, less a little.
const WATCHED_DRIFT: u32 = 240_000;

/// How clients try again unless a call says otherwise: number of tries, and milliseconds of delay.
pub(crate) const TRIES: u32 = 6;
pub(crate) const SHORTEST_REST: u64 = 5;
pub(crate) const LONGEST_REST: u64 = 60;

/// How long a client's kernel waits for an acknowledgement before it gives a connection up.
pub(crate) const USER_TIMEOUT: Time = 5 * SECOND;

/// How long a client waits for a connection and its handshake, and how long it waits at most before
/// it tries again.
pub(crate) const CONNECT_TIMEOUT: Time = SECOND;
pub(crate) const LONGEST_BACKOFF: Time = 2 * SECOND;

/// How long a client waits at most before it tries again after the first failure; twice as long after each further one.
pub(crate) const FIRST_BACKOFF: Time = 50 * MILLI;

/// A ttl that leaves enough time for every node while all is well. Quarantines should be short, and still last longer
/// than any lock.
const COMFORTABLE: u64 = 2_000;
const COMFORTABLE_GUARDED: u64 = 500;

/// The longest lock in worlds whose quarantines should be short.
const LONGEST_GUARDED: u64 = 1_000;

/// The longest ttl of clients that have a shorter one than others.
const SHORTER: u64 = COMFORTABLE_GUARDED;

/// How much longer a client keeps out a server to which it connects for the first time.
const UPTIME_GRAIN: Time = 2 * SECOND;

/// The numbers of one world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The number of nodes in the configuration.
    pub(crate) nodes: usize,
    /// The number of servers. If there are fewer than nodes, the last nodes are the first servers again.
    pub(crate) servers: usize,
    pub(crate) hosts: usize,
    pub(crate) clients: usize,
    /// The number of contenders that use another library.
    pub(crate) strangers: usize,
    pub(crate) resources: usize,
    /// How many of the resources, counted from the last, stand for sets of the others: none or one.
    pub(crate) sets: usize,
    /// The number of users of each resource in each client, and whether all of them wait as long as they may.
    pub(crate) users: usize,
    pub(crate) patient: bool,
    /// The time during which faults happen.
    pub(crate) length: Time,
    /// Whether exclusion has to hold throughout.
    pub(crate) covered: bool,

    /// The most that clocks are fast or slow, in parts in a thousand million.
    pub(crate) server_drift: u32,
    pub(crate) client_drift: u32,

    // Numbers of links.
    pub(crate) delay: Time,
    pub(crate) delay_tail: Time,
    pub(crate) tear: u32,
    /// How many bytes a connection takes before a write is cut short.
    pub(crate) window: usize,

    // Numbers of servers.
    pub(crate) kinds: Kinds,
    /// Servers refuse scripts, and clients use none, unless something else here needs them: see
    /// [`is_bare`](Self::is_bare).
    pub(crate) bare: bool,
    /// Servers refuse scripts in words of their own, and clients have to find that out. They do so in every second
    /// period of this length, or always if it is zero.
    pub(crate) own_words: Option<Time>,
    /// Such servers still load the scripts.
    pub(crate) loads: bool,
    /// Servers do not permit the native release that they know.
    pub(crate) native_refused: bool,
    /// Clients have to give a password.
    pub(crate) credentials: bool,
    /// The database that clients select.
    pub(crate) database: u32,
    /// How many connections may wait to be accepted before more are refused.
    pub(crate) backlog: usize,
    /// How many servers never come back when all other faults end, and whether they are silent
    /// rather than dead.
    pub(crate) losses: usize,
    pub(crate) silent: bool,

    // Numbers of users.
    pub(crate) shortest_ttl: u64,
    pub(crate) longest_ttl: u64,
    /// By how many milliseconds keys live longer than locks, for a client whose clock is right.
    pub(crate) lock_delay: u64,
    /// Whether every ttl is one of the two, and none is between.
    pub(crate) extremes: bool,
    /// The least time for which a user works, and how much longer it may be.
    pub(crate) shortest_work: Time,
    pub(crate) work: Time,
    pub(crate) rest: Time,
    pub(crate) wait: Time,
    /// Weights of what a holder does next: release, drop, extend, hand over, keep the lock too
    /// long, confirm.
    pub(crate) habits: [u32; 6],
    pub(crate) cancels: u32,
    /// How often a call is cancelled in a turn in which an answer to it may have been read.
    pub(crate) second_thoughts: u32,
    /// How often a client inspects a resource when it has a turn. Most worlds have none.
    pub(crate) inspects: u32,
    /// How often a client begins to watch a resource when it has a turn and does not. Most worlds have none.
    pub(crate) watches: u32,
    /// How often a lock is kept by its engine. Most worlds have no such locks.
    pub(crate) keeps: u32,
    /// How often a holder has its lock kept from now on, when it does something: one that it has got, or that
    /// was handed to it.
    pub(crate) keeps_held: u32,
    /// How often a lock comes with a fencing token. Most worlds have no such locks.
    pub(crate) fenced: u32,
    /// Whether a lock with a fencing token has an owner of its own. Most worlds have no such locks.
    pub(crate) leads: bool,
    /// How often a call is for a shared lock, and how often the holder of an exclusive one makes it a shared one when
    /// it does something. Most worlds have no shared locks.
    pub(crate) shared: u32,
    pub(crate) downgrades: u32,
    /// How long shared locks are held. Then only one user wants the exclusive lock. If this is zero, they are held as
    /// long as others, and all users may want it.
    pub(crate) reads_for: Time,
    /// How often a call is for a permit, of how many, and whether the last client thinks that there is one more.
    pub(crate) permits: (u32, u16),
    pub(crate) other_permits: bool,
    /// How often the clock of a server is set back or forward, in each tenth of a second. Most worlds set none.
    pub(crate) clock_steps: u32,
    /// How often the holder of a lock asks to be told when it is at risk.
    pub(crate) alerts: u32,
    /// How often a lock may be extended.
    pub(crate) extensions: Option<u32>,

    // Numbers of processes.
    pub(crate) lag: Time,
    pub(crate) pause: u32,
    pub(crate) longest_pause: Time,
    pub(crate) dead_after: u64,
    pub(crate) node_timeout: Option<u64>,

    // Numbers of faults.
    /// The least time from one fault to the next, and how much longer it may be.
    pub(crate) shortest_gap: Time,
    pub(crate) gap: Time,
    /// The least length of a fault, and how much longer it may be.
    pub(crate) shortest_fault: Time,
    pub(crate) longest_fault: Time,
    /// Whether operators delete or replace keys on at least a majority.
    pub(crate) raids: bool,
    /// Weights, in the order of [`FAULTS`].
    pub(crate) faults: [u32; FAULTS.len()],

    /// Whether clients check the clocks of servers for steps.
    pub(crate) watch: bool,
    /// Whether servers that carry markers lose nothing in a restart, and report that.
    pub(crate) durable: bool,
    /// How clients treat restarted servers.
    pub(crate) guard: Guard,
    /// Whether operators trust nodes that were never used.
    pub(crate) trusted: bool,
    pub(crate) members: Members,

    pub(crate) switches: Switches,
}

/// What clients know of restarts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Guard {
    /// A restarted server votes.
    #[default]
    Off,
    /// A restarted server does not vote, and all clients know the longest ttl of all.
    Observed,
    /// A restarted server does not vote, and no client knows the longest ttl.
    Untold,
    /// The servers carry markers, and decide themselves whether they vote.
    Strict,
}

/// The clients of a world with markers. Those that differ from the first ones begin when every
/// server carries a marker of the first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Members {
    /// All clients have the same configuration.
    #[default]
    Alike,
    /// Every second client has a shorter longest ttl, and joins.
    ShortLater,
    /// Every second client has a longer one, and raises the markers.
    LongLater,
    /// The last client has another name for the group.
    OtherName,
    /// The last client knows of one node fewer.
    OtherNodes,
}

/// Deviations: an assumption that does not hold, or a driver that works wrongly. If all are off, the world is as it
/// should be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switches {
    /// Whether exclusion has to hold in any case.
    pub(crate) no_excuses: bool,
    /// The only oracle that is on, if not all are.
    pub(crate) only: Option<&'static str>,
    /// Every server's clock is as fast as it can be, and every client's as slow.
    pub(crate) worst_clocks: bool,
    /// Clients read a clock that stops while the machine is suspended.
    pub(crate) monotonic: bool,
    /// How long a server that lost its memory stays away at least.
    pub(crate) restart_delay: Time,
    /// Drivers read the clock once in a turn, at its beginning.
    pub(crate) stale_clock: bool,
    /// Drivers close connections with FIN: the bytes on their way arrive at some time.
    pub(crate) polite: bool,
    /// Drivers keep the connection of a probe that was answered, and use it.
    pub(crate) keeps_probes: bool,
    /// Drivers send releases over a connection of their own and merge the answers: the releases
    /// overtake their `SET`s.
    pub(crate) overtakes: bool,
    /// Drivers watch and delete keys over a connection of their own: a transaction overtakes a `SET` that was
    /// read together with its `WATCH`.
    pub(crate) watches_elsewhere: bool,
    /// When servers stop telling their identity, if they do.
    pub(crate) secretive_from: Option<Time>,
}

/// The kinds of servers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Kinds {
    #[default]
    Redis,
    /// Servers with a native release.
    Valkey,
    /// Servers with another native release.
    Newest,
    /// Servers that know neither `HELLO` nor RESP3.
    Old,
    /// Servers of each kind in turn.
    Mixed,
}

impl Plan {
    pub(crate) fn draw(entropy: &mut Entropy) -> Self {
        use Kinds::{Mixed, Newest, Old, Redis, Valkey};
        let covered = entropy.below(4) != 3;
        let nodes: usize = entropy.pick(&[3, 1, 2, 3, 3, 4, 5, 5, 7]);
        let quorum = nodes / 2 + 1;
        let spare = (nodes - quorum) as u32;
        let twins = entropy.pick(&[0, 0, 0, 0, 1]) * entropy.below(spare + 1);
        let servers = nodes - twins as usize;
        let losses = entropy.pick(&[0, 0, 1]) * entropy.below(spare - twins + 1);
        let clients = 1 + entropy.below(8) as usize;
        let shortest_ttl = entropy.pick(&[200, 20, 50, 1_000]);
        let drift = entropy.below(4_950) * 1_000;
        let watch = entropy.pick(&[false, false, true]);
        // Two clocks that drift apart faster look stepped.
        let drift = if watch { drift % WATCHED_DRIFT } else { drift };
        let delay = entropy.pick(&[50, 20, 200, 2_000]) * MICRO;
        let strangers = entropy.pick(&[0, 0, 1, 2]);
        let plan = Self {
            nodes,
            servers,
            hosts: 1 + entropy.below(clients as u32) as usize,
            clients,
            strangers,
            resources: 1 + entropy.below(3) as usize,
            length: entropy.pick(&[5, 2, 10, 20]) * SECOND,
            covered,
            server_drift: drift,
            client_drift: drift,
            delay,
            delay_tail: entropy.pick(&[0, 0, 1, 10, 200]) * MILLI,
            tear: entropy.pick(&[0, 0, 50_000, 500_000]),
            window: entropy.pick(&[1 << 20, 1 << 16, 4096, 700]),
            kinds: entropy.pick(&[Redis, Redis, Mixed, Valkey, Newest, Old]),
            native_refused: entropy.pick(&[false, false, true]),
            // Strangers have no password and know no database.
            credentials: entropy.pick(&[false, false, true]) && strangers == 0,
            database: entropy.pick(&[0, 0, 5]),
            backlog: entropy.pick(&[511, 511, 2, 0]),
            losses: losses as usize,
            silent: entropy.pick(&[false, true]),
            shortest_ttl,
            longest_ttl: shortest_ttl * u64::from(entropy.pick(&[1_u32, 3, 10])),
            work: entropy.pick(&[5, 1, 50, 1_000]) * MILLI,
            rest: entropy.pick(&[20, 1, 200, 1_000]) * MILLI,
            wait: entropy.pick(&[200, 20, 1_000, 3_000]) * MILLI,
            habits: [4, 2, 2, 1, 1, 1].map(|most| entropy.below(most * 4)),
            cancels: entropy.pick(&[0, 0, 50_000, 300_000]),
            extensions: entropy.pick(&[None, None, Some(1), Some(3)]),
            lag: entropy.pick(&[20, 5, 100, 1_000]) * MICRO,
            pause: entropy.pick(&[0, 0, 1_000, 20_000]),
            longest_pause: entropy.pick(&[1, 20, 300, 3_000]) * MILLI,
            dead_after: entropy.pick(&[2_000, 200, 30_000]),
            // A node timeout below the usual round trip gives no lock, which is not interesting.
            node_timeout: match delay < MILLI {
                true => entropy.pick(&[None, None, Some(5), Some(50)]),
                false => entropy.pick(&[None, None, Some(50)]),
            },
            gap: entropy.pick(&[1_000, 20, 100, 300]) * MILLI,
            longest_fault: entropy.pick(&[100, 10, 1_000, 8_000]) * MILLI,
            faults: FAULTS.map(|fault| {
                if fault.is_of_markers() {
                    return 0; // If there are some, they are drawn later.
                }
                let drawn = entropy.pick(&[0, 0, 1, 4]);
                drawn * u32::from(fault.is_covered() || !covered)
            }),
            watch,
            // The other numbers matter only in worlds of some kind or theme.
            ..Self::tame(clients)
        };
        theme::bend(plan, entropy)
    }

    /// Lets clients quarantine restarted servers in one world of two. Servers may then forget even if exclusion has to
    /// hold.
    pub(crate) fn guarded(mut self, entropy: &mut Entropy) -> Self {
        if entropy.below(2) == 0 {
            return self;
        }
        self.guard = Guard::Observed;
        self.shortest_ttl = self.shortest_ttl.min(LONGEST_GUARDED);
        self.longest_ttl = self.longest_ttl.min(LONGEST_GUARDED);
        let amnesia = entropy.pick(&[0, 0, 1, 4]);
        if self.covered && self.is_guarded() {
            self.faults[Amnesia as usize] = amnesia;
        }
        self
    }

    /// Lets the servers carry markers. Every fault may then happen although exclusion has to hold. The kinds of clients
    /// are drawn too.
    pub(crate) fn marked(mut self, entropy: &mut Entropy) -> Self {
        use Members::{Alike, LongLater, OtherName, OtherNodes, ShortLater};
        self.guard = Guard::Strict;
        self.strangers = 0;
        self.shortest_ttl = self.shortest_ttl.min(LONGEST_GUARDED);
        self.longest_ttl = self.longest_ttl.min(LONGEST_GUARDED);
        self.trusted = entropy.pick(&[true, false]);
        self.durable = entropy.pick(&[false, false, true]);
        self.members = entropy.pick(&[
            Alike, Alike, Alike, ShortLater, LongLater, OtherName, OtherNodes,
        ]);
        for (weight, fault) in self.faults.iter_mut().zip(FAULTS) {
            if fault.is_of_markers() || fault == Amnesia {
                *weight = entropy.pick(&[0, 1, 0, 4]);
            }
        }
        self.with_members()
    }

    /// Returns the plan with as many clients as its kinds need, and without the faults that these are known not to
    /// survive.
    pub(crate) fn with_members(mut self) -> Self {
        let mut never: &[Fault] = &[];
        match self.members {
            Members::Alike => {}
            Members::ShortLater | Members::LongLater => {
                self.clients = self.clients.max(2);
                self.longest_ttl = LONGEST_GUARDED;
                self.shortest_ttl = self.shortest_ttl.min(SHORTER);
            }
            Members::OtherNodes if self.nodes == 1 => self.members = Members::Alike,
            Members::OtherName | Members::OtherNodes => self.clients = self.clients.max(2),
        }
        if self.members == Members::LongLater || self.forgetful() == 0 {
            never = &[Amnesia, Flush, Promote, Follow];
        }
        if self.has_outsider() {
            // A server without a marker would belong to the first client that comes.
            never = &[Amnesia, Flush, Promote, Follow, Unmark];
        }
        for fault in never {
            self.faults[*fault as usize] = 0;
        }
        if self.durable {
            self.faults[Amnesia as usize] = 0;
            self.faults[Promote as usize] = 0;
        }
        if self.members != Members::Alike {
            self.faults[Reinit as usize] = 0;
        }
        if self.covered {
            self.faults[Unbar as usize] = 0;
        }
        self
    }

    /// Returns how many servers may forget. If only some clients know something, the others have to learn it from every
    /// majority.
    pub(crate) fn forgetful(&self) -> usize {
        match self.members {
            Members::ShortLater => self.nodes - self.quorum(),
            Members::Alike | Members::LongLater | Members::OtherName | Members::OtherNodes => {
                self.servers
            }
        }
    }

    /// Returns `true` if exclusion survives a server that forgets: all contenders quarantine it
    /// until every lock is over. Strangers have no quarantine.
    pub(crate) fn is_guarded(&self) -> bool {
        matches!(self.guard, Guard::Observed | Guard::Strict) && self.strangers == 0
    }

    /// Returns `true` if exclusion survives a server that forgets and keeps its connections.
    pub(crate) fn is_marked(&self) -> bool {
        self.guard == Guard::Strict && self.strangers == 0
    }

    /// Returns the longest ttl of all clients: that of the locks that are taken after the faults.
    pub(crate) fn max_ttl(&self) -> u64 {
        self.longest_ttl.max(match self.guard {
            Guard::Off => COMFORTABLE,
            Guard::Observed | Guard::Untold | Guard::Strict => COMFORTABLE_GUARDED,
        })
    }

    /// Returns the longest ttl of this client, which it uses after the faults.
    pub(crate) fn max_ttl_of(&self, client: usize) -> u64 {
        let odd = client % 2 == 1;
        let shorter = match self.members {
            Members::ShortLater => odd,
            Members::LongLater => !odd,
            Members::Alike | Members::OtherName | Members::OtherNodes => false,
        };
        if shorter { SHORTER } else { self.max_ttl() }
    }

    /// Returns `true` if clients learn of longer ttls than they know, from any node.
    pub(crate) fn are_raised(&self) -> bool {
        matches!(self.members, Members::ShortLater | Members::LongLater)
    }

    /// Returns `true` if a client begins only when every server carries a marker.
    pub(crate) fn is_late(&self, client: usize) -> bool {
        let odd = client % 2 == 1;
        self.are_raised() && odd || self.is_outsider(client)
    }

    /// Returns `true` if a client belongs to another group.
    pub(crate) fn is_outsider(&self, client: usize) -> bool {
        self.has_outsider() && client + 1 == self.clients
    }

    fn has_outsider(&self) -> bool {
        matches!(self.members, Members::OtherName | Members::OtherNodes)
    }

    /// Returns how many nodes a client knows of.
    pub(crate) fn nodes_of(&self, client: usize) -> usize {
        let other = self.members == Members::OtherNodes && self.is_outsider(client);
        self.nodes - usize::from(other)
    }

    /// Returns how long a server is quarantined at most, by true time, if all clients know the longest ttl.
    pub(crate) fn quarantine(&self) -> Time {
        if !matches!(self.guard, Guard::Observed | Guard::Strict) {
            return 0;
        }
        let ttl = self.max_life() * MILLI;
        let span = ttl + ttl / 100 + 2 * MILLI + UPTIME_GRAIN;
        span + span / 50
    }

    /// Returns a plan with three nodes and no faults: the base of plans with one purpose. Events that the plan does not
    /// mention do not happen.
    pub(crate) fn tame(clients: usize) -> Self {
        Self {
            nodes: 3,
            servers: 3,
            hosts: clients,
            clients,
            resources: 1,
            users: 1,
            length: 20 * SECOND,
            covered: true,
            delay: 50 * MICRO,
            window: 1 << 20,
            backlog: 511,
            shortest_ttl: 1_000,
            longest_ttl: 1_000,
            work: 20 * MILLI,
            rest: 20 * MILLI,
            wait: SECOND,
            habits: [4, 1, 1, 1, 1, 1],
            permits: (0, 1),
            lag: 20 * MICRO,
            dead_after: 2_000,
            gap: 300 * MILLI,
            longest_fault: 100 * MILLI,
            ..Self::default()
        }
    }

    /// Returns the plan with as many servers as nodes, and locks of one length.
    pub(crate) fn alike(self) -> Self {
        Self {
            servers: self.nodes,
            longest_ttl: self.shortest_ttl,
            ..self
        }
    }

    /// Returns the weights for only these faults.
    pub(crate) fn only(faults: &[Fault]) -> [u32; FAULTS.len()] {
        FAULTS.map(|fault| u32::from(faults.contains(&fault)))
    }

    /// Returns how fast the clock of a client is, in parts of a thousand million.
    pub(crate) fn client_skew(&self, entropy: &mut Entropy) -> i64 {
        match self.switches.worst_clocks {
            true => -i64::from(self.client_drift),
            false => entropy.around_zero(self.client_drift),
        }
    }

    pub(crate) fn server_skew(&self, entropy: &mut Entropy) -> i64 {
        match self.switches.worst_clocks {
            true => i64::from(self.server_drift),
            false => entropy.around_zero(self.server_drift),
        }
    }

    /// Returns the ttl that a peer asks for.
    pub(crate) fn draw_ttl(&self, peer: usize, entropy: &mut Entropy) -> u64 {
        let longest = self.longest_ttl.min(self.max_ttl_of(peer));
        let longer = longest - self.shortest_ttl;
        self.shortest_ttl
            + if self.extremes {
                longer * u64::from(entropy.below(2))
            } else {
                entropy.span(longer)
            }
    }

    /// Returns which resource a user of a client wants. The first ones want one each.
    pub(crate) fn resource_of(&self, user: usize) -> usize {
        user % self.resources
    }

    /// Returns `true` if engines extend some locks by themselves.
    pub(crate) fn has_kept_locks(&self) -> bool {
        self.keeps != 0 || self.keeps_held != 0
    }

    /// Returns how many resources have a name of their own.
    pub(crate) fn names(&self) -> usize {
        self.resources - self.sets
    }

    /// Returns `true` if a user wants several resources at once.
    pub(crate) fn wants_sets(&self, user: usize) -> bool {
        self.names() <= self.resource_of(user)
    }

    /// Returns `true` if a key may have several holders.
    pub(crate) fn has_several_holders(&self) -> bool {
        self.shared != 0 || self.permits.0 != 0
    }

    /// Returns `true` if several calls of one client about one resource may ask nodes at once.
    pub(crate) fn asks_beside(&self) -> bool {
        self.sets != 0 || self.has_several_holders()
    }

    /// Returns `true` if every such user has to get its lock once more after the faults.
    pub(crate) fn is_taken_by_all(&self, user: usize) -> bool {
        self.wants_sets(user) || self.has_several_holders()
    }

    /// Returns `true` if users of one client want the same resource: it is not known then which
    /// command was sent for which of them.
    pub(crate) fn is_crowded(&self) -> bool {
        1 < self.users
    }

    /// Returns `true` if nothing keeps clients from waiting for each other.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.strangers == 0 && self.pause == 0 && self.faults.iter().all(|weight| *weight == 0)
    }

    pub(crate) fn quorum(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// Returns a node as clients are configured with it.
    pub(crate) fn url(&self, node: usize) -> String {
        match (self.credentials, self.database) {
            (false, 0) => format!("node{node}"),
            (false, database) => format!("redis://node{node}/{database}"),
            (true, database) if node.is_multiple_of(2) => {
                format!("redis://default:{PASSWORD}@node{node}/{database}")
            }
            (true, database) => format!("redis://:{PASSWORD}@node{node}/{database}"),
        }
    }

    /// Returns the password that servers demand while all is well.
    pub(crate) fn password(&self) -> Option<&'static [u8]> {
        self.credentials.then_some(PASSWORD.as_bytes())
    }

    /// Returns the server of a configured node.
    pub(crate) fn server_of(&self, node: usize) -> usize {
        node % self.servers
    }

    /// Returns the number of clients and strangers.
    pub(crate) fn peers(&self) -> usize {
        self.clients + self.strangers
    }

    /// Returns how long a client asks one node at most, by its clock: a vote is useless when half of the lock's life is
    /// over, unless the user has fixed the timeout. But a node that was never reached before has as long as a
    /// connection may take.
    pub(crate) fn longest_vote(&self, ttl: u64) -> Time {
        let vote = self.node_timeout.unwrap_or(ttl / 2) * MILLI;
        vote.max(CONNECT_TIMEOUT)
    }

    /// Returns how long a call that only its tries can end may take, by its client's clock: its longest vote and the
    /// longest delay for every attempt. Each of the two may end a tick and a turn late.
    pub(crate) fn longest_tries(&self, tries: u32, ttl: u64) -> Time {
        let attempt = self.longest_vote(ttl) + LONGEST_REST * MILLI;
        u64::from(tries) * (attempt + 2 * (2 * MILLI + self.lag))
    }

    /// Returns the time within which a client gets each lock after the faults.
    pub(crate) fn lock_within(&self) -> Time {
        // Keys of dead clients, or of locks in a hand-over, stay that long.
        let ttl = self.longest_ttl * MILLI + self.added_time();
        let ttl = ttl + ttl / 50 + 2 * MILLI;
        // The kernel notices a connection that died without a notice: five seconds after something was written to it,
        // or by its keepalive. The client notices a handshake that hangs, and notices it sooner.
        let noticed = USER_TIMEOUT.max(KEEP_ALIVE).max(CONNECT_TIMEOUT);
        // Then it is opened again, after a while.
        let opened = LONGEST_BACKOFF + CONNECT_TIMEOUT;
        // The node may be quarantined then, and the next attempt finds it ready.
        self.quarantine() + ttl + noticed + opened + LONGEST_REST * MILLI + self.answers()
    }

    /// Returns the time within which everything ends that was begun before, or to get those locks.
    pub(crate) fn patience(&self) -> Time {
        // Open calls have as long as they were given, by their clients' clocks.
        let calls = self.wait.max(self.longest_tries(TRIES, self.longest_ttl));
        let calls = calls + calls / 50;
        // The release at the end of a call may be the first to find that a connection is dead: it waits for the next
        // connection.
        let debts = USER_TIMEOUT.max(KEEP_ALIVE) + LONGEST_BACKOFF + CONNECT_TIMEOUT;
        calls.max(self.lock_within()) + debts + self.answers()
    }

    /// Returns the time for some round trips, and the quarter of a second after which a refused release is tried again.
    fn answers(&self) -> Time {
        250 * MILLI + 20 * (2 * self.delay + self.lag)
    }
}
