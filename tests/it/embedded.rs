//! Compares the embedded node with a real `redis-server`: both get the same random commands, and their replies must be
//! the same bytes. Only the first words of errors are compared.
//!
//! The commands come from a seed, so a failure can be repeated. Excluded are: `INFO` (its fields are compared instead),
//! the `id` in the answer to `HELLO`, foreign scripts, and the milliseconds of `PTTL`, also within a script, and the
//! ways of `CLIENT TRACKING` that the node refuses. Pushes are compared together with their places among the replies,
//! and after each batch also those to the other connections. Valkey has other error texts, so the tests compare only
//! whether it refuses, and that it answers `HELLO`. Times to live are at least a quarter of an hour apart from each
//! other and from zero, so that no delay of the machine changes their order. The tests wait until keys with a short ttl
//! have expired.

mod commands;
mod grammar;
mod locks;
mod members;
mod peers;
mod tokens;
mod tracking;

use std::ops::RangeInclusive;

use shearline::internals::Flavour::{self, Redis, Valkey, Valkey81, Valkey91};
use shearline::internals::scripts::JOIN;

use self::commands::{BARRIERS, Commands};
use self::grammar::{Words, shown};
use self::peers::{Connection, Model, Received, Remote};
use crate::effort::is_long;
use crate::servers::{Options as ServerOptions, Reply, Server, until};

/// The number of commands in the short run, and in the long run.
const COMMANDS: [usize; 2] = [1_200, 12_000];

const PASSWORD: &str = "sesame";

/// How far the answers to `PTTL` may be apart, in milliseconds, because the clocks are read at different times. This is
/// a fifteenth of the distance between two times to live.
const PTTL_APART_MAX: u64 = 60_000;

/// Numbers that are times in milliseconds. The counters of fencing tokens are smaller or larger.
const TIMES: RangeInclusive<i64> = 10_000_000..=1_000_000_000_000;

#[test]
fn the_store_answers_as_a_server_does() {
    compare(1, ServerOptions::redis(), Model::store, None);
}

#[test]
fn the_store_asks_for_its_password_as_a_server_does() {
    compare(2, ServerOptions::redis(), Model::store, Some(PASSWORD));
}

#[test]
fn the_node_answers_as_a_server_does() {
    compare(3, ServerOptions::redis(), Model::node, None);
}

#[test]
fn the_node_asks_for_its_password_as_a_server_does() {
    compare(4, ServerOptions::redis(), Model::node, Some(PASSWORD));
}

#[test]
fn the_store_answers_as_a_valkey_does() {
    compare(5, ServerOptions::valkey(), Model::store, None);
}

#[test]
fn the_node_answers_as_a_valkey_does() {
    compare(6, ServerOptions::valkey(), Model::node, None);
}

/// Returns the kind of the server, and the version if it is a Valkey.
fn flavour_of(server: &Server) -> Flavour {
    let Reply::Bulk(text) = server.raw().run("INFO server") else {
        panic!("INFO is a text");
    };
    let text = String::from_utf8(text).expect("a text");
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("valkey_version:"));
    match version.map(|version| version.split('.').collect::<Vec<_>>()) {
        Some(version) if version[..2] == ["8", "1"] => Valkey81,
        Some(version) if version[..2] == ["9", "0"] => Valkey,
        Some(version) if version[..2] == ["9", "1"] => Valkey91,
        None => Redis,
        other => panic!("the embedded node plays no Valkey {other:?}"),
    }
}

/// A store is never a replica. A client that has read that the server is durable then asks it to
/// join, with the marker of another master which it has followed meanwhile.
#[test]
fn a_server_that_has_been_a_replica_is_not_durable() {
    for options in [ServerOptions::redis(), ServerOptions::valkey()] {
        let server = Server::with(&options);
        let mut raw = server.raw();
        let mut join = || {
            raw.run("FLUSHALL");
            raw.command(&[b"SET", b"m", b"1 other 20000 3 2 1 c"]);
            let words = "m bar own 20000 3 2 c 1 20202 join";
            let mut command: Vec<&[u8]> = vec![b"EVAL", JOIN.0.as_bytes(), b"2"];
            command.extend(words.split(' ').map(str::as_bytes));
            let joined = raw.command(&command);
            raw.run("REPLICAOF 127.0.0.1 1");
            raw.run("REPLICAOF NO ONE");
            joined
        };
        let said = |left, marker: &[u8]| {
            let marker = Reply::Bulk(marker.to_vec());
            Reply::Array(vec![Reply::Integer(1), Reply::Integer(left), marker])
        };
        assert_eq!(join(), said(0, b"1 own 20000 3 2 1 c"), "a restart");
        assert_eq!(join(), said(20_202, b"1 own 20000 3 2 0 c"));
    }
}

/// Every field of the store's `INFO` is also a field of the server's `INFO`, in the same section and order.
#[test]
fn the_fields_of_info_are_those_of_a_server() {
    let server = Server::start();
    let mut real = Connection::Remote(Remote::connect(server.address()));
    let mut model = Model::store(Redis, None);
    let mut modelled = model.connect();
    for section in ["server", "memory", "replication"] {
        let mut replies = [&mut real, &mut modelled]
            .map(|connection| connection.ask(&mut model, &format!("INFO {section}")));
        // The length at the beginning differs.
        for reply in &mut replies {
            reply.drain(..reply.find('#').unwrap());
        }
        let mut lines = replies[0].lines();
        for line in replies[1].lines() {
            let differs = ["run_id", "master_replid", "uptime_in_seconds"];
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let same = |other: &str| match other.split_once(':') {
                Some((name, _)) if differs.contains(&field) => name == field,
                Some((name, other)) => (name, other) == (field, value),
                None => other == line,
            };
            assert!(lines.any(same), "{section}: {line}");
        }
    }
}

/// A client with a connection to both sides.
struct Pair {
    real: Connection,
    modelled: Connection,
}

impl Pair {
    fn new(server: &Server, model: &mut Model) -> Self {
        Self {
            real: Connection::Remote(Remote::connect(server.address())),
            modelled: model.connect(),
        }
    }

    /// Returns what the server and the model have sent until the batch was answered.
    fn exchange(&mut self, model: &mut Model, batch: &[Words]) -> [Received; 2] {
        let Self { real, modelled } = self;
        [real, modelled].map(|connection| connection.exchange(model, batch))
    }
}

/// Sends the commands of `seed` to a server and to a model of its kind, and compares the replies.
fn compare(
    seed: u64,
    options: ServerOptions,
    model: fn(Flavour, Option<&str>) -> Model,
    password: Option<&str>,
) {
    let server = Server::with(&match password {
        Some(password) => options.password(password),
        None => options,
    });
    let flavour = flavour_of(&server);
    let mut model = model(flavour, password);
    let mut commands = Commands::new(seed, flavour, password);
    let mut pairs: Vec<Pair> = Vec::new();
    let (mut sent, mut pushed) = (0, 0);
    let all = COMMANDS[usize::from(is_long())];
    while sent < all {
        let at = commands.grammar.below(3);
        let mut batch = Vec::new();
        while pairs.len() <= at {
            pairs.push(Pair::new(&server, &mut model));
            batch = commands.greeting();
        }
        if commands.grammar.one_in(30) {
            expire(
                &commands.grammar.words("short-lived"),
                &mut pairs[at],
                &mut model,
            );
        }
        batch.extend(commands.batch());
        sent += batch.len();
        let place = format!("seed {seed}, connection {at}");
        let [expected, read] = pairs[at].exchange(&mut model, &batch);
        assert_same(&place, flavour, &batch, [&expected, &read]);
        pushed += read.pushes.len();
        for (number, pair) in pairs.iter_mut().enumerate() {
            let place = format!("{place}, brought connection {number}");
            let [expected, read] = pair.exchange(&mut model, &[vec![b"PING".to_vec()]]);
            assert_same(&place, flavour, &batch, [&expected, &read]);
            pushed += read.pushes.len();
        }
        if commands.grammar.one_in(30) {
            pairs.remove(at).modelled.close(&mut model);
        }
    }
    // In the short run there are few pushes.
    let least = if is_long() { all / 150 } else { 0 };
    assert!(pushed > least, "only {pushed} pushes");
}

#[track_caller]
fn assert_same(place: &str, flavour: Flavour, batch: &[Words], [expected, read]: [&Received; 2]) {
    let until = |end: usize| {
        let lines: Vec<String> = batch[..end].iter().map(|it| shown(it)).collect();
        lines.join("\n    ")
    };
    for (number, (expected, reply)) in expected.replies.iter().zip(&read.replies).enumerate() {
        let command = &batch[number];
        assert!(
            is_like(flavour, command, expected, reply),
            "{place}: {}\n  server: {}\n  model:  {}\n  before it: {}",
            shown(command),
            short(expected),
            short(reply),
            until(number),
        );
    }
    let pushes = |read: &Received| -> Vec<String> {
        let pushes = read.pushes.iter().filter(|(_, push)| !is_of_barrier(push));
        pushes
            .map(|(at, push)| format!("{at}: {}", short(push)))
            .collect()
    };
    assert_eq!(
        pushes(expected),
        pushes(read),
        "{place}: pushes of\n    {}",
        until(batch.len())
    );
}

/// Returns `true` for a push about a key that may be a barrier of the strict guard: it depends on the
/// millisecond whether `JOIN` sets it once more.
fn is_of_barrier(push: &[u8]) -> bool {
    let mut barriers = BARRIERS.iter();
    barriers.any(|key| push.ends_with(format!("\r\n{key}\r\n").as_bytes()))
}

/// Sets a key with a ttl of a few milliseconds on both sides, and waits until it is gone.
fn expire(set: &[Vec<u8>], pair: &mut Pair, model: &mut Model) {
    let get = [vec![b"GET".to_vec(), set[1].clone()]];
    for connection in [&mut pair.real, &mut pair.modelled] {
        let reply = connection
            .exchange(model, &[set.to_vec()])
            .replies
            .remove(0);
        if reply != b"+OK\r\n" {
            // Without the password there is no key to wait for.
            continue;
        }
        until("the key ends", || {
            let reply = connection.exchange(model, &get).replies.remove(0);
            reply == b"$-1\r\n" || reply == b"_\r\n"
        });
    }
}

fn is_like(flavour: Flavour, command: &[Vec<u8>], expected: &[u8], reply: &[u8]) -> bool {
    let own_words = expected[0] == b'-' || command[0].eq_ignore_ascii_case(b"hello");
    if flavour != Redis && own_words {
        return expected[0] == reply[0];
    }
    let [expected, reply] = [expected, reply].map(|reply| wordless(flavour, reply));
    is_same(command, &expected, &reply)
}

/// Returns the reply with only the first word of each error, or of a Valkey without any.
fn wordless(flavour: Flavour, reply: &[u8]) -> Vec<u8> {
    let lines = reply.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.map(|line| {
        let code = line.iter().position(u8::is_ascii_whitespace);
        match (line, code) {
            ([b'-', ..], Some(code)) if flavour == Redis => [&line[..code], b"\n"].concat(),
            ([b'-', ..], _) => b"-\n".to_vec(),
            _ => line.to_vec(),
        }
    });
    lines.collect::<Vec<_>>().concat()
}

fn is_same(command: &[Vec<u8>], expected: &[u8], reply: &[u8]) -> bool {
    let name = command[0].to_ascii_lowercase();
    match name.as_slice() {
        b"pttl" | b"eval" | b"evalsha" | b"exec" => with_near_numbers(expected, reply),
        b"hello" => without_id(expected) == without_id(reply),
        _ => expected == reply,
    }
}

/// Returns `true` if the lines are the same except for large numbers, which may differ a little. Scripts of the strict
/// guard answer such numbers for a barrier.
fn with_near_numbers(expected: &[u8], reply: &[u8]) -> bool {
    let lines = |reply: &[u8]| -> Vec<Vec<u8>> {
        let lines = reply.split_inclusive(|byte| *byte == b'\n');
        lines.map(<[u8]>::to_vec).collect()
    };
    let (expected, reply) = (lines(expected), lines(reply));
    let near = |(expected, reply): (&Vec<u8>, &Vec<u8>)| {
        expected == reply
            || integer(expected)
                .zip(integer(reply))
                .is_some_and(|(one, other)| is_near(one, other))
    };
    expected.len() == reply.len() && expected.iter().zip(&reply).all(near)
}

/// Returns `true` for the same number, and for times that may be those of the same key.
fn is_near(one: i64, other: i64) -> bool {
    let apart = if TIMES.contains(&one) {
        PTTL_APART_MAX
    } else {
        0
    };
    one.abs_diff(other) <= apart
}

fn integer(reply: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(reply).ok()?;
    text.strip_prefix(':')?.trim_end().parse().ok()
}

/// Returns the answer to `HELLO` without the number of the client.
fn without_id(reply: &[u8]) -> Vec<u8> {
    let id = b"$2\r\nid\r\n:";
    match reply.windows(id.len()).position(|part| part == id) {
        None => reply.to_vec(),
        Some(at) => {
            let digits = reply[at + id.len()..].iter();
            let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
            [&reply[..at], &reply[at + id.len() + digits..]].concat()
        }
    }
}

fn short(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(160)].escape_ascii().to_string()
}
