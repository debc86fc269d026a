//! One fault, told four times: of one node of three and of two, with each face.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use shearline::{
    Builder, LockError, LockOptions, NodeOutcome, NodeReport, NodeState, Report, RestartGuard,
};

use crate::face::{Face, Which, at};
use crate::servers::{
    Cluster, LONG, Options, PATIENCE, Proxy, Raw, Server, eventually, within_patience,
};

/// What a vote is waited for where a fault makes nodes silent, which costs it once for each report.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// Greetings that are too slow are given up after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// What can be the matter with a node.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) strike: fn(&mut Victim<'_>),
    pub(super) heal: fn(&mut Victim<'_>),
    /// Whether a report may say this of the node; `None` for what costs it its vote for a moment at
    /// most.
    pub(super) says: Option<fn(NodeOutcome) -> bool>,
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
    /// A command that is answered only when the fault is over.
    pub(super) open: Option<JoinHandle<()>>,
}

impl Victim<'_> {
    /// Runs a command on a connection of its own that stays open.
    #[track_caller]
    pub(super) fn run(&mut self, line: &str) {
        let server = &self.server;
        let inside = self.memory.inside.get_or_insert_with(|| server.raw());
        inside.run(line);
    }

    /// Sends a command whose answer is awaited by [`Victim::await_open`].
    pub(super) fn begin(&mut self, words: &'static [&'static [u8]]) {
        let mut raw = self.server.raw();
        self.memory.open = Some(thread::spawn(move || drop(raw.try_command(words))));
    }

    /// Waits until what was begun has ended.
    pub(super) fn await_open(&mut self) {
        let open = self.memory.open.take().expect("begun");
        open.join().expect("it only waits");
    }
}

/// Tells every fault of the table with each face, all side by side, on servers of their own that
/// are started with `options`.
pub(super) fn play(options: &Options, faults: &[Fault]) {
    play_in(|| Scene::new(options), faults);
}

/// The same of faults that make nodes silent.
pub(super) fn play_silent(options: &Options, faults: &[Fault]) {
    play_in(|| Scene::new(options).silent(), faults);
}

/// The same in scenes that are made otherwise.
pub(super) fn play_in(scene: impl Fn() -> Scene + Sync, faults: &[Fault]) {
    thread::scope(|scope| {
        for fault in faults {
            for which in Which::BOTH {
                let scene = &scene;
                scope.spawn(move || scene().play(fault, which));
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
        let proxies = cluster
            .iter()
            .map(|server| Proxy::to(server.address()))
            .collect();
        Self {
            cluster,
            proxies,
            credentials: None,
            is_silent: false,
        }
    }

    /// Handles give these credentials, `user:password`.
    pub(super) fn credentials(mut self, credentials: String) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Votes are waited for less long.
    fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }

    pub(super) fn builder(&self) -> Builder {
        let urls = self.proxies.iter().map(|proxy| match &self.credentials {
            Some(credentials) => proxy.url_with(credentials),
            None => proxy.url(),
        });
        let builder = at(urls).connect_timeout(CONNECT_TIMEOUT);
        let builder = builder.restart_guard(RestartGuard::Off);
        match self.is_silent {
            true => builder.node_timeout(NODE_TIMEOUT),
            false => builder,
        }
    }

    fn play(&mut self, fault: &Fault, which: Which) {
        self.one_of_three(fault, which);
        match fault.says {
            Some(_) => self.two_of_three(fault, which),
            None => self.all_three(fault, which),
        }
    }

    /// Every node has it, and it does not matter.
    fn all_three(&mut self, fault: &Fault, which: Which) {
        let mut told = Told::begin(self, fault, which);
        told.strike(3);
        let lock = told.lock("during");
        drop(told.face.unlock(lock));
        told.heal(3);
        told.is_a_node_again(0);
        told.nothing_is_left();
    }

    /// The two others are a majority for all that is asked; a report says what the node has; and
    /// when that is over it has a copy of every lock again, and none that it should not have.
    fn one_of_three(&mut self, fault: &Fault, which: Which) {
        let mut told = Told::begin(self, fault, which);
        let mut lock = told.lock("between");
        told.all_have("between");
        told.strike(1);
        told.face.extend(&mut lock, LONG).unwrap_or_else(|error| {
            panic!("{}: extend: {error}", fault.name);
        });
        told.unlock(lock);

        let mut lock = told.lock("before");
        told.face
            .extend(&mut lock, LONG)
            .unwrap_or_else(|error| panic!("{}: extend: {error}", fault.name));
        told.unlock(lock);

        told.reported();
        // A handle that meets it so is built without it, and has it later.
        let mut late = which.build(told.scene.builder());
        std::mem::swap(&mut told.face, &mut late);
        let lock = told.lock("late");
        told.unlock(lock);
        std::mem::swap(&mut told.face, &mut late);
        told.heal(1);
        told.is_a_node_again(0);
        std::mem::swap(&mut told.face, &mut late);
        told.is_a_node_again(0);
        told.owes_nothing();
        std::mem::swap(&mut told.face, &mut late);
        told.nothing_is_left();
    }

    /// Nothing can be had and it is said in time; the first call after the end of it has the lock.
    fn two_of_three(&mut self, fault: &Fault, which: Which) {
        let mut told = Told::begin(self, fault, which);
        let mut lock = told.lock("between");
        told.all_have("between");
        told.strike(2);
        // What becomes of these depends on the fault; that they end and that nothing stays does not.
        drop(told.in_time(|face, _| face.extend(&mut lock, LONG)));
        drop(told.in_time(|face, _| face.unlock(lock)));
        let options = LockOptions::new(LONG).wait(Duration::from_millis(200));
        eventually("nothing can be had", || {
            let error = told.refused("during", &options)?;
            assert!(
                matches!(error, LockError::NoQuorum(_)),
                "{}: `NoQuorum` was expected: {error:?}",
                fault.name
            );
            Some(())
        });
        told.heal(2);
        let lock = told.lock("after");
        told.unlock(lock);
        told.is_a_node_again(0);
        told.is_a_node_again(1);
        told.nothing_is_left();
    }
}

/// One telling of a story.
struct Told<'a> {
    scene: &'a mut Scene,
    fault: &'a Fault,
    which: Which,
    face: Face,
    memories: [Memory; 3],
}

impl<'a> Told<'a> {
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

    /// A call that must not outstay its deadline. None is given more than a second here; a busy
    /// machine is.
    #[track_caller]
    fn in_time<T>(&mut self, call: impl FnOnce(&mut Face, &dyn Fn(&str) -> String) -> T) -> T {
        let start = Instant::now();
        let key = |part: &str| self.which.key(&format!("{}:{part}", self.fault.name));
        let result = call(&mut self.face, &key);
        let took = start.elapsed();
        assert!(took < PATIENCE, "{}: it took {took:?}", self.fault.name);
        result
    }

    /// One call, which may try as often as it likes. It ends at once while a majority is unusable, which
    /// nodes that were mended are until they have been asked again: then there is another one.
    #[track_caller]
    fn lock(&mut self, part: &str) -> crate::face::Held {
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
    fn unlock(&mut self, lock: crate::face::Held) {
        let released = self
            .face
            .unlock(lock)
            .unwrap_or_else(|error| panic!("{}: unlock: {error}", self.fault.name));
        assert!(released.deleted >= 2, "{}: {released:?}", self.fault.name);
    }

    #[track_caller]
    fn all_have(&mut self, part: &str) {
        let key = self.key(part);
        eventually("all have it", || {
            self.face.settle();
            (self.scene.cluster.copies(&key) == 3).then_some(())
        });
    }

    /// Asks for a lock that cannot be had. Where a node's answers become bad, those from before count:
    /// on a busy machine they may arrive only now. Such a lock stands on a majority, and is given back.
    #[track_caller]
    fn refused(&mut self, part: &str, options: &LockOptions) -> Option<LockError> {
        let key = self.key(part);
        let lock = match self.in_time(|face, _| face.lock_with(&key, options)) {
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

    /// A report is made for a refusal: a stranger takes one of the two other nodes.
    #[track_caller]
    fn reported(&mut self) {
        let Some(says) = self.fault.says else { return };
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
            says(said).then_some(())
        });
        assert!(seen.is_some(), "{}: reported was {last:?}", self.fault.name);
        raw.del(key.as_bytes());
    }

    #[track_caller]
    fn is_a_node_again(&mut self, node: usize) {
        let (name, key) = (self.fault.name, self.key("again"));
        let mut last = None;
        let seen = within_patience(|| {
            self.face.settle();
            let state = self.face.nodes()[node].state;
            let lock = self.face.try_lock(&key, LONG).ok()?;
            // The copy of a straggler may be on its way.
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

    /// For a handle that is not looked after any more.
    #[track_caller]
    fn owes_nothing(&mut self) {
        eventually("all is answered", || {
            self.face.settle();
            let nodes = self.face.nodes();
            let quiet = |node: &shearline::NodeStatus| node.in_flight == 0 && node.owed == 0;
            nodes.iter().all(quiet).then_some(())
        });
    }

    /// No node has a key of this story.
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

/// Whether so many nodes are unusable that there is no majority without them.
fn is_unusable(report: &Report) -> bool {
    let unusable = |node: &&NodeReport| matches!(node.outcome, NodeOutcome::Unusable(_));
    let nodes = report.nodes();
    nodes.len() - nodes.iter().filter(unusable).count() < report.quorum()
}

#[track_caller]
pub(super) fn report_of(error: &LockError) -> &Report {
    match error {
        LockError::Held(report) | LockError::NoQuorum(report) => report,
        other => panic!("no report in {other:?}"),
    }
}
