//! The embedded node held against a real `redis-server`: both get the same random commands, and
//! their replies must be the same bytes.
//!
//! The commands come from a seed, so a failure can be repeated. Excluded are: `INFO` (its fields
//! are compared instead), `CLIENT ID` and the `id` in the answer to `HELLO`, foreign scripts, and
//! the milliseconds of `PTTL`, also within a script. Times to live are at least a quarter of an
//! hour apart from each other and from zero, so that no delay of the machine changes their order.
//! Keys with short ones are waited for until they are gone.

mod commands;
mod locks;
mod peers;

use shearline::embedded::{EmbeddedNode, Options};

use self::commands::{Commands, JOIN};
use self::peers::{Connection, Model, Remote};
use super::servers::{Options as ServerOptions, Reply, Server, eventually};

/// Commands of one run.
const COMMANDS: usize = 12_000;

const PASSWORD: &str = "sesame";

/// How far the answers to `PTTL` may be apart, in milliseconds: the clocks are read at different
/// times. It is a fifteenth of the distance between two times to live.
const PTTL_APART_MAX: u64 = 60_000;

#[test]
fn the_store_answers_as_a_server_does() {
    let server = Server::start();
    compare(1, &server, Model::store(None), None);
}

#[test]
fn the_store_asks_for_its_password_as_a_server_does() {
    let server = Server::with(&ServerOptions::redis().password(PASSWORD));
    compare(2, &server, Model::store(Some(PASSWORD)), Some(PASSWORD));
}

#[test]
fn the_node_answers_as_a_server_does() {
    let server = Server::start();
    let node = EmbeddedNode::spawn().expect("a node");
    compare(3, &server, Model::Node(node), None);
}

#[test]
fn the_node_asks_for_its_password_as_a_server_does() {
    let server = Server::with(&ServerOptions::redis().password(PASSWORD));
    let node = EmbeddedNode::spawn_with(&Options::new().password(PASSWORD)).unwrap();
    compare(4, &server, Model::Node(node), Some(PASSWORD));
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

/// Every field of the store's `INFO` is one of the server's, in the same section and order.
#[test]
fn the_fields_of_info_are_those_of_a_server() {
    let server = Server::start();
    let mut real = Connection::Remote(Remote::connect(server.address()));
    let mut model = Model::store(None);
    let mut modelled = model.connect();
    for section in ["server", "memory", "replication"] {
        let command = vec![vec![b"INFO".to_vec(), section.as_bytes().to_vec()]];
        let mut replies = [&mut real, &mut modelled].map(|connection| {
            let reply = connection.exchange(&mut model, &command).remove(0);
            String::from_utf8(reply).expect("a text")
        });
        // The length in front differs.
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

/// Sends the commands of `seed` to both, and compares.
fn compare(seed: u64, server: &Server, mut model: Model, password: Option<&str>) {
    let mut commands = Commands::new(seed, password);
    let mut connections: Vec<(Connection, Connection)> = Vec::new();
    let mut sent = 0;
    while sent < COMMANDS {
        if connections.len() < 3 {
            let real = Remote::connect(server.address());
            connections.push((Connection::Remote(real), model.connect()));
        }
        let at = commands.below(connections.len());
        let (real, modelled) = &mut connections[at];
        if commands.below(30) == 0 {
            expire(&commands.short_lived(), [real, modelled], &mut model);
        }
        let batch = commands.batch();
        sent += batch.len();
        let expected = real.exchange(&mut model, &batch);
        let replies = modelled.exchange(&mut model, &batch);
        for (number, command) in batch.iter().enumerate() {
            let (expected, reply) = (&expected[number], &replies[number]);
            assert!(
                is_same(command, expected, reply),
                "seed {seed}, connection {at}: {}\n  server: {}\n  store:  {}\n  before it: {}",
                shown(command),
                short(expected),
                short(reply),
                batch[..number]
                    .iter()
                    .map(|it| shown(it))
                    .collect::<Vec<_>>()
                    .join("\n    "),
            );
        }
        if commands.below(30) == 0 {
            connections.remove(at);
        }
    }
}

/// Sets a key with a ttl of a few milliseconds on both sides, and waits until it is gone there.
fn expire(set: &[Vec<u8>], connections: [&mut Connection; 2], model: &mut Model) {
    let get = [vec![b"GET".to_vec(), set[1].clone()]];
    for connection in connections {
        let reply = connection.exchange(model, &[set.to_vec()]).remove(0);
        if reply != b"+OK\r\n" {
            // Without the password there is nothing to wait for.
            continue;
        }
        eventually("the key ends", || {
            let reply = connection.exchange(model, &get).remove(0);
            (reply == b"$-1\r\n" || reply == b"_\r\n").then_some(())
        });
    }
}

fn is_same(command: &[Vec<u8>], expected: &[u8], reply: &[u8]) -> bool {
    let name = command[0].to_ascii_lowercase();
    match name.as_slice() {
        // The release and the extension say -1, 0 or 1 alone.
        b"pttl" | b"eval" | b"evalsha" => match (integer(expected), integer(reply)) {
            (Some(expected @ 2..), Some(reply @ 2..)) => expected.abs_diff(reply) <= PTTL_APART_MAX,
            _ => with_near_numbers(expected, reply),
        },
        b"hello" => without_id(expected) == without_id(reply),
        _ => expected == reply,
    }
}

/// Returns `true` if the lines are the same except for large numbers, which may differ a little:
/// what the scripts of the strict guard say about a barrier.
fn with_near_numbers(expected: &[u8], reply: &[u8]) -> bool {
    let lines = |reply: &[u8]| -> Vec<Vec<u8>> {
        let lines = reply.split_inclusive(|byte| *byte == b'\n');
        lines.map(<[u8]>::to_vec).collect()
    };
    let (expected, reply) = (lines(expected), lines(reply));
    let near = |(expected, reply): (&Vec<u8>, &Vec<u8>)| {
        expected == reply
            || match (integer(expected), integer(reply)) {
                (Some(one @ 2..), Some(other @ 2..)) => one.abs_diff(other) <= PTTL_APART_MAX,
                _ => false,
            }
    };
    expected.len() == reply.len() && expected.iter().zip(&reply).all(near)
}

fn integer(reply: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(reply).ok()?;
    text.strip_prefix(':')?.trim_end().parse().ok()
}

/// The answer to `HELLO` without the number of the client.
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

fn shown(command: &[Vec<u8>]) -> String {
    let words = command.iter().map(|word| short(word));
    words.collect::<Vec<_>>().join(" ")
}

fn short(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(160)].escape_ascii().to_string()
}
