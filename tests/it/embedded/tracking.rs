//! Pushes of keys that end by themselves: the same stories on servers and on both models.
//!
//! The parent module compares the pushes of random commands.

use std::thread;
use std::time::Duration;

use shearline::internals::Flavour::{Redis, Valkey};
use shearline::internals::scripts::RELEASE;

use super::peers::{Connection, Model, Remote};
use crate::servers::{Options, Server, eventually};

const PUSH: &[u8] = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";

/// A client that tracks, and another one: of a server, or of the model.
struct World {
    server: Option<Server>,
    model: Model,
    tracker: Connection,
    other: Connection,
    /// Pushes that came together with replies, because the key ended before this thread read the replies.
    early: Vec<Vec<u8>>,
}

impl World {
    fn of_model(model: Model) -> Self {
        Self::new(None, model)
    }

    fn of_server(options: &Options) -> Self {
        Self::new(Some(Server::with(options)), Model::store(Redis, None))
    }

    fn new(server: Option<Server>, mut model: Model) -> Self {
        let mut connect = || match &server {
            Some(server) => Connection::Remote(Remote::connect(server.address())),
            None => model.connect(),
        };
        let (tracker, other) = (connect(), connect());
        let mut world = Self {
            server,
            model,
            tracker,
            other,
            early: Vec::new(),
        };
        world.of_tracker("HELLO 3\nCLIENT TRACKING ON OPTIN NOLOOP");
        world
    }

    /// Returns the last reply.
    fn of_tracker(&mut self, lines: &str) -> Vec<u8> {
        let read = self.tracker.exchange(&mut self.model, &batch(lines));
        self.early
            .extend(read.pushes.into_iter().map(|(_, push)| push));
        read.replies.last().cloned().expect("a reply")
    }

    fn of_other(&mut self, lines: &str) {
        self.other.exchange(&mut self.model, &batch(lines));
    }

    fn pushes(&mut self) -> Vec<Vec<u8>> {
        let mut pushes = std::mem::take(&mut self.early);
        pushes.extend(self.tracker.pushes(&mut self.model));
        pushes
    }

    /// Sets a key that ends soon, and registers it while it exists. Returns when it ends at the latest, counted from
    /// now.
    fn registered(&mut self, millis: u64) -> Duration {
        loop {
            self.of_other(&format!("SET k v PX {millis}"));
            let reply = self.of_tracker("CLIENT CACHING YES\nPTTL k");
            let left = String::from_utf8(reply).expect("a text");
            let left: i64 = left[1..].trim_end().parse().expect("a number");
            if let Ok(left @ 1..) = u64::try_from(left) {
                return Duration::from_millis(left + 1);
            }
            // This machine stood still meanwhile.
            self.of_other("DEL k");
            self.pushes();
        }
    }
}

/// Returns one command for each line. `R` stands for the release.
fn batch(lines: &str) -> Vec<Vec<Vec<u8>>> {
    let word = |word: &str| Vec::from(if word == "R" { RELEASE.0 } else { word });
    let lines = lines.lines();
    lines
        .map(|line| line.split(' ').map(word).collect())
        .collect()
}

#[test]
fn a_key_that_ends_is_pushed_although_no_command_reads_it() {
    let servers = [Options::redis(), Options::valkey()].map(|it| World::of_server(&it));
    let stores = [Redis, Valkey].map(|flavour| World::of_model(Model::store(flavour, None)));
    let nodes = [Redis, Valkey].map(|flavour| World::of_model(Model::node(flavour, None)));
    for mut world in servers.into_iter().chain(stores).chain(nodes) {
        world.registered(300);
        let pushes = eventually("a push", || {
            world.model.expire();
            Some(world.pushes()).filter(|pushes| !pushes.is_empty())
        });
        assert_eq!(pushes, [PUSH]);
        world.of_other("PTTL k\nSET k v");
        assert_eq!(world.pushes(), [] as [&[u8]; 0], "one push");
    }
}

/// The registration ends in each case. A server sends no push to the client whose own command finds that the key is
/// over.
#[test]
fn the_end_of_a_key_is_pushed_to_all_but_the_client_that_finds_it() {
    type Find = fn(&mut World);
    let cases: [(Find, &[&[u8]]); 8] = [
        (|world| drop(world.of_tracker("GET k")), &[]),
        (|world| drop(world.of_tracker("SET k w NX")), &[]),
        (|world| drop(world.of_tracker("EVAL R 1 k v")), &[]),
        (|world| world.of_other("GET k"), &[PUSH]),
        (|world| world.of_other("SET k w NX"), &[PUSH]),
        (|world| world.of_other("DEL k"), &[PUSH]),
        (|world| world.of_other("PEXPIRE k 9"), &[PUSH]),
        (|world| world.of_other("EVAL R 1 k v"), &[PUSH]),
    ];
    let debug = ["--enable-debug-command", "yes"];
    let worlds = [
        World::of_server(&Options::redis().arguments(debug)),
        World::of_server(&Options::valkey().arguments(debug)),
        World::of_model(Model::store(Redis, None)),
        World::of_model(Model::store(Valkey, None)),
    ];
    let story = |mut world: World| {
        if world.server.is_some() {
            world.of_other("DEBUG SET-ACTIVE-EXPIRE 0");
        }
        for (number, (find, expected)) in cases.iter().enumerate() {
            let left = world.registered(60);
            thread::sleep(left + Duration::from_millis(5));
            find(&mut world);
            assert_eq!(world.pushes(), *expected, "case {number}");
            world.of_other("DEL k\nSET k v");
            assert_eq!(world.pushes(), [] as [&[u8]; 0], "case {number}, later");
        }
        // If the command that finds the key over also registers it, the registration is for later changes.
        let left = world.registered(60);
        thread::sleep(left + Duration::from_millis(5));
        assert_eq!(world.of_tracker("CLIENT CACHING YES\nPTTL k"), b":-2\r\n");
        assert_eq!(world.pushes(), [] as [&[u8]; 0]);
        world.of_other("SET k v");
        assert_eq!(world.pushes(), [PUSH]);
    };
    thread::scope(|scope| {
        for world in worlds {
            scope.spawn(|| story(world));
        }
    });
}
