//! Plays one fault on one node of three, and on two, with each face.
//!
//! Every call has to end. Tests in virtual time check that it ends in time; here the machine may be busy.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use shearline::{
    Builder, LockError, LockOptions, NodeOutcome, NodeReport, NodeState, Report, RestartGuard,
};

use crate::effort::is_long;
use crate::face::{Face, Held, Which, at, report_of};
use crate::servers::{
    Cluster, End, LONG, Mischief, Options, PATIENCE, Proxy, Raw, SILENT, Server, eventually,
    within_patience,
};

/// The node timeout for faults that make nodes silent. It is longer than a machine stands still. Each report takes that
/// long.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

type Act = Box<dyn Fn(&mut Victim<'_>) + Send + Sync>;

/// A disturbance of a node.
pub(super) struct Fault {
    name: String,
    strike: Act,
    heal: Act,
    /// How what a report may say of the node begins in `Debug`: alternatives with `|` between. Empty for a fault that
    /// costs the vote for a moment at most.
    says: &'static str,
}

impl Fault {
    pub(super) fn new(
        name: &str,
        says: &'static str,
        strike: impl Fn(&mut Victim<'_>) + Send + Sync + 'static,
        heal: impl Fn(&mut Victim<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            strike: Box::new(strike),
            heal: Box::new(heal),
            says,
        }
    }

    /// Faults that commands cause and end, one a row: `name | commands | commands | what a report says`. `cut` ends the
    /// open connections. Some words stand for others.
    pub(super) fn of_rows(rows: &'static str, words: &[(&str, &str)]) -> Vec<Self> {
        let rows = rows.trim().lines().map(|row| {
            let columns: Vec<&str> = row.split('|').map(str::trim).collect();
            let (name, says) = (columns[0], columns[3]);
            let [strike, heal] = [columns[1], columns[2]].map(|commands| {
                let mut all = commands.to_owned();
                for (word, is) in words {
                    all = all.replace(word, is);
                }
                move |victim: &mut Victim<'_>| {
                    for command in all.split("; ").filter(|command| !command.is_empty()) {
                        match command {
                            "cut" => victim.proxy.cut(End::Fin),
                            command => victim.run(command),
                        }
                    }
                }
            });
            Self::new(name, says, strike, heal)
        });
        rows.collect()
    }

    /// A fault that the relay in front of the node causes.
    pub(super) fn of_relay(name: &str, says: &'static str, mischief: Mischief) -> Self {
        let strike = move |victim: &mut Victim<'_>| victim.proxy.set(mischief);
        let heal = |victim: &mut Victim<'_>| victim.proxy.set(Mischief::None);
        Self::new(name, says, strike, heal)
    }

    /// Open connections also end so.
    pub(super) fn ending(mut self, end: End) -> Self {
        let strike = self.strike;
        self.strike = Box::new(move |victim| {
            strike(victim);
            victim.proxy.cut(end);
        });
        self
    }

    fn may_be_said(&self, outcome: NodeOutcome) -> bool {
        let said = format!("{outcome:?}");
        let mut says = self.says.split('|');
        says.any(|one| said.starts_with(one.trim()))
    }
}

/// The node that has the fault.
pub(super) struct Victim<'a> {
    pub(super) server: &'a mut Server,
    pub(super) proxy: &'a Proxy,
    pub(super) memory: &'a mut Memory,
}

/// What a fault keeps from its beginning to its end.
#[derive(Default)]
pub(super) struct Memory {
    /// A connection that was made before.
    pub(super) inside: Option<Raw>,
    /// The thread that waits for a command which is answered only after the fault.
    pub(super) open: Option<JoinHandle<()>>,
}

impl Victim<'_> {
    /// Runs a command on a new connection that stays open.
    #[track_caller]
    pub(super) fn run(&mut self, line: &str) {
        let server = &self.server;
        let inside = self.memory.inside.get_or_insert_with(|| server.raw());
        inside.run(line);
    }

    /// Sends a command whose answer [`Victim::await_open`] waits for.
    pub(super) fn begin(&mut self, words: &'static [&'static [u8]]) {
        let mut raw = self.server.raw();
        self.memory.open = Some(thread::spawn(move || drop(raw.try_command(words))));
    }

    /// Waits until the open command has ended.
    pub(super) fn await_open(&mut self) {
        let open = self.memory.open.take().expect("begun");
        open.join().expect("it only waits");
    }
}

/// Plays every fault of the table, all side by side, on servers of their own that are started with `options`: with
/// one face on one node, and with the other on more. In the long run with each face on both.
pub(super) fn play(options: &Options, faults: &[Fault]) {
    play_in(|| Scene::new(options), faults);
}

/// Plays faults that make nodes silent, as [`play`] does.
pub(super) fn play_silent(options: &Options, faults: &[Fault]) {
    play_in(|| Scene::new(options).silent(), faults);
}

/// Plays the faults as [`play`] does, in scenes that `scene` makes.
pub(super) fn play_in(scene: impl Fn() -> Scene + Sync, faults: &[Fault]) {
    thread::scope(|scope| {
        for (number, fault) in faults.iter().enumerate() {
            for (place, part) in (number..).zip([Scene::one_of_three, Scene::more_of_three]) {
                for (at, which) in (place..).zip(Which::BOTH) {
                    let scene = &scene;
                    if is_long() || at.is_multiple_of(2) {
                        scope.spawn(move || part(&mut scene(), fault, which));
                    }
                }
            }
        }
    });
}

/// Three servers, each behind a relay.
pub(super) struct Scene {
    pub(super) cluster: Cluster,
    pub(super) proxies: Vec<Proxy>,
    credentials: Option<String>,
    is_silent: bool,
}

impl Scene {
    pub(super) fn new(options: &Options) -> Self {
        let cluster = Cluster::with(3, options);
        let proxies = cluster.proxies();
        Self {
            cluster,
            proxies,
            credentials: None,
            is_silent: false,
        }
    }

    /// Handles use these credentials, `user:password`.
    pub(super) fn credentials(mut self, credentials: String) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Uses the shorter node timeout.
    fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }

    pub(super) fn builder(&self) -> Builder {
        let urls = self.proxies.iter().map(|proxy| match &self.credentials {
            Some(credentials) => proxy.url_with(credentials),
            None => proxy.url(),
        });
        let builder = at(urls).connect_timeout(SILENT);
        let builder = builder.restart_guard(RestartGuard::Off);
        match self.is_silent {
            true => builder.node_timeout(NODE_TIMEOUT),
            false => builder,
        }
    }

    fn more_of_three(&mut self, fault: &Fault, which: Which) {
        match fault.says {
            "" => self.all_three(fault, which),
            _ => self.two_of_three(fault, which),
        }
    }

    /// Plays the fault on every node: it costs no vote.
    fn all_three(&mut self, fault: &Fault, which: Which) {
        let mut run = Run::begin(self, fault, which);
        run.strike(3);
        let lock = run.lock("during");
        drop(run.face.unlock(lock));
        run.heal(3);
        run.is_a_node_again(0);
        run.nothing_is_left();
    }

    /// Plays the fault on one node of three. The two others are a majority for every call. A report names the fault of
    /// the node. Afterwards the node has a copy of every lock again, and no other key.
    fn one_of_three(&mut self, fault: &Fault, which: Which) {
        let mut run = Run::begin(self, fault, which);
        let mut lock = run.lock("between");
        run.all_have("between");
        run.strike(1);
        run.extend(&mut lock);
        run.unlock(lock);

        let mut lock = run.lock("before");
        run.extend(&mut lock);
        run.unlock(lock);

        run.reported();
        // A handle that is built during the fault lacks the node, and gets it later.
        let late = which.build(run.scene.builder());
        let first = std::mem::replace(&mut run.face, late);
        let lock = run.lock("late");
        run.unlock(lock);
        run.heal(1);
        run.is_a_node_again(0);
        run.face.await_quiet();
        run.face = first;
        run.is_a_node_again(0);
        run.nothing_is_left();
    }

    /// Plays the fault on two nodes of three. Every call fails; the first call afterwards gets the lock.
    fn two_of_three(&mut self, fault: &Fault, which: Which) {
        let mut run = Run::begin(self, fault, which);
        let mut lock = run.lock("between");
        run.all_have("between");
        run.strike(2);
        // The outcomes of these calls depend on the fault; but they end, and no key stays.
        drop(run.face.extend(&mut lock, LONG));
        drop(run.face.unlock(lock));
        let options = LockOptions::new(LONG).wait(Duration::from_millis(200));
        eventually("nothing can be had", || {
            let error = run.refused("during", &options)?;
            assert_matches!(
                error,
                LockError::NoQuorum(_),
                "{}: `NoQuorum` was expected: {error:?}",
                fault.name
            );
            Some(())
        });
        run.heal(2);
        let lock = run.lock("after");
        run.unlock(lock);
        run.is_a_node_again(0);
        run.is_a_node_again(1);
        run.nothing_is_left();
    }
}

/// One run of a story.
struct Run<'a> {
    scene: &'a mut Scene,
    fault: &'a Fault,
    which: Which,
    face: Face,
    memories: [Memory; 3],
}

impl<'a> Run<'a> {
    fn begin(scene: &'a mut Scene, fault: &'a Fault, which: Which) -> Self {
        let mut face = which.build(scene.builder());
        face.await_ready();
        Self {
            scene,
            fault,
            which,
            face,
            memories: Default::default(),
        }
    }

    fn key(&self, part: &str) -> String {
        self.which.key(&format!("{}:{part}", self.fault.name))
    }

    fn victim(&mut self, node: usize) -> Victim<'_> {
        Victim {
            server: &mut self.scene.cluster[node],
            proxy: &self.scene.proxies[node],
            memory: &mut self.memories[node],
        }
    }

    fn strike(&mut self, victims: usize) {
        for node in 0..victims {
            (self.fault.strike)(&mut self.victim(node));
        }
    }

    fn heal(&mut self, victims: usize) {
        for node in 0..victims {
            (self.fault.heal)(&mut self.victim(node));
        }
    }

    /// Takes a lock, in any number of attempts. A call ends at once while a majority is unusable. Nodes stay unusable
    /// after the fault until they have been asked again, so the call is repeated then.
    #[track_caller]
    fn lock(&mut self, part: &str) -> Held {
        let options = LockOptions::new(LONG).wait(2 * PATIENCE);
        eventually("a majority is usable", || {
            match self.face.lock_with(self.key(part), &options) {
                Ok(lock) => Some(lock),
                Err(LockError::NoQuorum(report)) if is_unusable(&report) => {
                    self.face.settle();
                    None
                }
                Err(error) => panic!("{}: {part}: {error}", self.fault.name),
            }
        })
    }

    #[track_caller]
    fn extend(&mut self, lock: &mut Held) {
        let extended = self.face.extend(lock, LONG);
        extended.unwrap_or_else(|error| panic!("{}: extend: {error}", self.fault.name));
    }

    #[track_caller]
    fn unlock(&mut self, lock: Held) {
        let released = self
            .face
            .unlock(lock)
            .unwrap_or_else(|error| panic!("{}: unlock: {error}", self.fault.name));
        assert!(released.deleted >= 2, "{}: {released:?}", self.fault.name);
    }

    #[track_caller]
    fn all_have(&mut self, part: &str) {
        let key = self.key(part);
        self.face.await_copies(&self.scene.cluster, &key);
    }

    /// Asks for a lock that should not be granted. On a busy machine, good answers from before the fault may arrive
    /// only now, and they count. A lock that is granted so is on a majority, and is released.
    #[track_caller]
    fn refused(&mut self, part: &str, options: &LockOptions) -> Option<LockError> {
        let key = self.key(part);
        let lock = match self.face.lock_with(&key, options) {
            Ok(lock) => lock,
            Err(error) => return Some(error),
        };
        let token = Some(lock.token());
        let values = self.scene.cluster.values(&key);
        let copies = values.iter().filter(|value| **value == token).count();
        assert!(2 <= copies, "{}: {part}: {values:?}", self.fault.name);
        drop(self.face.unlock(lock));
        None
    }

    /// Provokes a refusal, which gives a report: another client takes one of the two other nodes.
    #[track_caller]
    fn reported(&mut self) {
        if self.fault.says.is_empty() {
            return;
        }
        let key = self.key("reported");
        let mut raw = self.scene.cluster[1].raw();
        raw.set_px(key.as_bytes(), b"foreign", LONG);
        let mut last = None;
        let once = LockOptions::new(LONG).tries(1);
        let seen = within_patience(|| {
            self.face.settle();
            let error = self.refused("reported", &once)?;
            let said = report_of(&error).nodes()[0].outcome;
            last = Some(said);
            self.fault.may_be_said(said).then_some(())
        });
        assert!(seen.is_some(), "{}: reported was {last:?}", self.fault.name);
        raw.del(key.as_bytes());
    }

    #[track_caller]
    fn is_a_node_again(&mut self, node: usize) {
        let (name, key) = (&self.fault.name, self.key("again"));
        let mut last = None;
        let seen = within_patience(|| {
            self.face.settle();
            let state = self.face.nodes()[node].state;
            let lock = self.face.try_lock(&key, LONG).ok()?;
            // The copy of a straggler may still arrive.
            let copies = self.scene.cluster.copies(&key);
            drop(self.face.unlock(lock));
            last = Some((state, copies));
            (state == NodeState::Ready && copies == 3).then_some(())
        });
        assert!(
            seen.is_some(),
            "{name}: node {node} is no node again: {last:?}"
        );
    }

    /// Asserts that no node has a key of this story.
    #[track_caller]
    fn nothing_is_left(&mut self) {
        for part in [
            "between", "before", "reported", "late", "during", "after", "again",
        ] {
            let key = self.key(part);
            let cluster = &self.scene.cluster;
            let gone = within_patience(|| {
                self.face.settle();
                (cluster.copies(&key) == 0).then_some(())
            });
            assert!(gone.is_some(), "{key:?} is left: {:?}", self.face.nodes());
        }
    }
}

/// Returns `true` if so many nodes are unusable that the others are no majority.
fn is_unusable(report: &Report) -> bool {
    let unusable = |node: &&NodeReport| matches!(node.outcome, NodeOutcome::Unusable(_));
    let nodes = report.nodes();
    nodes.len() - nodes.iter().filter(unusable).count() < report.quorum()
}
