//! No attempt leaves a key on a node, for every way to end an attempt and for every fault of a node during the attempt.
//!
//! An attempt can end in six ways, and up to a hundred attempts of each are begun together. While they run, one or two
//! nodes of five are stopped, or their connections are cut, at one of three moments. The long run makes a thousand
//! trials of each. When all nodes run again and every command is answered, each node has exactly the right keys. Eight
//! other locks use the same connections all the time and stay held.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use shearline::{
    Acquiring, LockError, LockGuard, LockOptions, NodeState, Redlock, RestartGuard, Retry,
};

use crate::effort::times;
use crate::executor::{all, block_on};
use crate::face::Face;
use crate::servers::{
    Cluster, End, LONG, Mischief, Options, Proxy, Way as Direction, permitted, until,
};

/// How many attempts of one kind are under way together.
fn together() -> usize {
    times(40, 100)
}

/// How often nodes are stopped: with each of two fates, one victim or two.
fn stops() -> usize {
    times(4, 10)
}

/// How often connections are cut. If a connection is cut soon after it was made, the handle waits a while before it
/// connects again.
fn cuts() -> usize {
    times(1, 4)
}

/// Longer than a story takes: no call waits for a stopped node, and no node becomes suspect.
const NODE_TIMEOUT: Duration = Duration::from_secs(30);

/// The other locks, which are held all the time.
const OTHERS: usize = 8;

/// The nodes on which a stranger holds the keys of the attempts that have to be refused: a majority, even without the
/// victims.
const STRANGERS: [usize; 3] = [0, 2, 4];

/// How an attempt ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Released,
    Dropped,
    Cancelled,
    Refused,
    TriesExhausted,
    DeadlinePassed,
}

impl Way {
    const ALL: [Self; 6] = [
        Self::Released,
        Self::Dropped,
        Self::Cancelled,
        Self::Refused,
        Self::TriesExhausted,
        Self::DeadlinePassed,
    ];

    /// Returns `true` if a stranger holds the key that the attempt asks for.
    fn is_refused(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::TriesExhausted | Self::DeadlinePassed
        )
    }

    fn options(self) -> LockOptions {
        let options = LockOptions::new(LONG);
        match self {
            Self::TriesExhausted => options.tries(3),
            Self::DeadlinePassed => options.wait(Duration::from_millis(2)),
            Self::Released | Self::Dropped | Self::Cancelled | Self::Refused => options.tries(1),
        }
    }

    fn key(self, number: usize) -> String {
        format!("{self:?}:{number}")
    }
}

/// When the nodes stop: before one of these.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Moment {
    Set,
    Reply,
    Release,
}

impl Moment {
    const ALL: [Self; 3] = [Self::Set, Self::Reply, Self::Release];
}

/// What happens to the victims.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    /// SIGSTOP and SIGCONT.
    Stopped,
    /// SIGSTOP and SIGCONT, for servers that have forgotten the scripts.
    StoppedWithoutScripts,
    /// Their answers are held back, and the connection is reset.
    Cut,
}

/// Five servers behind relays, with strangers' keys, and a handle with eight locks.
struct Field {
    cluster: Cluster,
    proxies: Vec<Proxy>,
}

impl Field {
    fn new(options: &Options) -> Self {
        let cluster = Cluster::with(5, options);
        for &node in &STRANGERS {
            let mut raw = cluster[node].raw();
            for way in Way::ALL.iter().filter(|way| way.is_refused()) {
                for number in 0..together() {
                    raw.set_px(way.key(number).as_bytes(), b"foreign", 10 * LONG);
                }
            }
        }
        let proxies = cluster.proxies();
        Self { cluster, proxies }
    }

    fn builder(&self) -> shearline::Builder {
        let soon = Duration::from_millis(1)..=Duration::from_millis(4);
        let builder = Redlock::builder()
            .nodes(self.proxies.iter().map(Proxy::url))
            .node_timeout(NODE_TIMEOUT)
            .connect_timeout(NODE_TIMEOUT)
            .dead_after(NODE_TIMEOUT)
            .restart_guard(RestartGuard::Off);
        permitted(builder.retry(Retry::new(32, soon)))
    }

    fn strike(&self, victims: &[usize], fate: Fate) {
        for &victim in victims {
            let server = &self.cluster[victim];
            match fate {
                Fate::Stopped => server.freeze(),
                Fate::StoppedWithoutScripts => {
                    server.raw().run("SCRIPT FLUSH");
                    server.freeze();
                }
                Fate::Cut => self.proxies[victim].cut(End::Rst),
            }
        }
    }

    fn heal(&self, victims: &[usize], fate: Fate) {
        for &victim in victims {
            match fate {
                Fate::Stopped | Fate::StoppedWithoutScripts => self.cluster[victim].thaw(),
                Fate::Cut => self.proxies[victim].set(Mischief::None),
            }
        }
    }

    /// Waits until nothing is open, and each node has the strangers' keys and `own` keys of this handle.
    #[track_caller]
    fn assert_tidy(&self, own: usize, redlock: &Redlock, what: &str) {
        until(&format!("{what}: all is answered"), || {
            let mut nodes = redlock.nodes().into_iter();
            nodes.all(|node| node.state == NodeState::Ready && node.in_flight + node.debts == 0)
        });
        for (node, raw) in self.cluster.raws().iter_mut().enumerate() {
            let refused = Way::ALL.iter().filter(|way| way.is_refused()).count();
            let foreign = match STRANGERS.contains(&node) {
                true => refused * together(),
                false => 0,
            };
            let expected = i64::try_from(own + foreign).expect("a small number");
            assert_eq!(raw.keys(), expected, "{what}: keys of node {node}");
        }
    }
}

/// One attempt.
struct Trial {
    way: Way,
    future: Pin<Box<Acquiring>>,
    result: Option<Result<LockGuard, LockError>>,
}

impl Trial {
    fn new(redlock: &Redlock, way: Way, number: usize) -> Self {
        Self {
            way,
            future: Box::pin(redlock.lock_with_async(way.key(number), &way.options())),
            result: None,
        }
    }

    /// Sends the `SET`, or at least queues it.
    fn begin(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(result) = self.future.as_mut().poll(&mut context) {
            self.result = Some(result);
        }
    }

    /// Waits for the outcome of an attempt that is not cancelled.
    async fn decide(&mut self) {
        if self.result.is_none() && self.way != Way::Cancelled {
            self.result = Some(self.future.as_mut().await);
        }
    }

    async fn end(mut self) {
        self.decide().await;
        match (self.way, self.result) {
            (Way::Released, Some(Ok(guard))) => {
                let released = guard.unlock_async().await.expect("a majority");
                // The three nodes that keep running have the key. The outcome may be certain before the last of them
                // has answered: a victim that is back has lost the key, and the other does not answer.
                assert!(released.deleted >= 2, "{released:?}");
            }
            (Way::Dropped, Some(Ok(guard))) => drop(guard),
            (Way::Cancelled, result) => drop((self.future, result)),
            (way, Some(Err(LockError::Held(_)))) if way.is_refused() => {}
            // The deadline came before the strangers' nodes had answered.
            (Way::DeadlinePassed, Some(Err(LockError::NoQuorum(_)))) => {}
            (way, result) => panic!("{way:?}: {result:?}"),
        }
    }
}

fn story(options: &Options, victims: &[usize], fates: &[Fate], moments: &[Moment], often: usize) {
    let field = Field::new(options);
    let redlock = field.builder().build().expect("a good configuration");
    field.assert_tidy(0, &redlock, "in the beginning");
    Face::Shared(redlock.clone()).ask_all();
    field.assert_tidy(0, &redlock, "when all were asked");
    let mut others: Vec<LockGuard> = (0..OTHERS)
        .map(|number| redlock.lock(format!("other:{number}"), LONG).expect("free"))
        .collect();
    field.assert_tidy(OTHERS, &redlock, "with the others");
    for &moment in moments {
        for time in 0..often {
            let fate = fates[time % fates.len()];
            let what = format!("{victims:?} {fate:?} {moment:?}");
            window(&field, &redlock, victims, fate, moment);
            field.assert_tidy(OTHERS, &redlock, &what);
            for other in &mut others {
                assert!(other.is_valid(), "{what}");
            }
        }
    }
    for other in others {
        other.unlock().expect("it was held all the time");
    }
    field.assert_tidy(0, &redlock, "in the end");
}

fn window(field: &Field, redlock: &Redlock, victims: &[usize], fate: Fate, moment: Moment) {
    let mut trials: Vec<Trial> = (0..together())
        .flat_map(|number| Way::ALL.map(|way| Trial::new(redlock, way, number)))
        .collect();
    if fate == Fate::Cut && moment == Moment::Reply {
        for &victim in victims {
            field.proxies[victim].set(Mischief::Hold(Direction::ToClient));
        }
    }
    if moment == Moment::Set {
        field.strike(victims, fate);
    }
    trials.iter_mut().for_each(Trial::begin);
    if moment == Moment::Reply {
        field.strike(victims, fate);
    }
    if moment == Moment::Release {
        block_on(all(trials.iter_mut().map(Trial::decide)));
        field.strike(victims, fate);
    }
    block_on(all(trials.into_iter().map(Trial::end)));
    field.heal(victims, fate);
}

const STOPPED: [Fate; 2] = [Fate::Stopped, Fate::StoppedWithoutScripts];

#[test]
fn two_stopped_nodes_of_five_keep_no_key() {
    // Valkey has its own command for a release, which `SCRIPT FLUSH` does not affect.
    for options in Options::behind_relays() {
        story(&options, &[1, 3], &STOPPED, &Moment::ALL, stops());
    }
}

#[test]
fn nodes_whose_connections_are_cut_keep_no_key() {
    thread::scope(|scope| {
        for victims in [&[1][..], &[1, 3]] {
            for moment in Moment::ALL {
                scope.spawn(move || {
                    story(&Options::redis(), victims, &[Fate::Cut], &[moment], cuts());
                });
            }
        }
    });
}
