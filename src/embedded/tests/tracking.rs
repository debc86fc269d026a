//! Pushes: the store with several clients by stories, the node with sockets.
//!
//! That they are those of real servers is shown by random commands in `tests/it/embedded.rs`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::string::String;
use std::vec::Vec;

use super::{EmbeddedNode, Memory, Session, Store, ask, client, receive, send};
use crate::resp;
use crate::time::Instant;

/// A store with clients that are called by a letter. Each has said `HELLO 3` and tracks, but `o`.
struct Clients {
    store: Store,
    now: u64,
    sessions: BTreeMap<char, Session>,
    /// What was sent to each that the story has not read.
    sent: BTreeMap<u64, String>,
}

impl Clients {
    fn new() -> Self {
        let mut clients = Self {
            store: Store::new(1, Instant::ZERO),
            now: 0,
            sessions: BTreeMap::new(),
            sent: BTreeMap::new(),
        };
        for name in ['a', 'b', 'o'] {
            let session = Store::session_of(u64::from(name));
            clients.sessions.insert(name, session);
        }
        for name in ['a', 'b'] {
            clients.run(name, "hello 3");
            clients.run(name, "client tracking on optin noloop");
        }
        clients.sent.clear();
        clients
    }

    fn run(&mut self, name: char, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let session = self.sessions.get_mut(&name).unwrap();
        let (now, mut out) = (Instant::from_millis(self.now), Vec::new());
        self.store.execute(session, now, &words, &mut out);
        let connection = session.id;
        self.receive(connection, &out);
        self.deliver();
    }

    fn deliver(&mut self) {
        while let Some((connection, push)) = self.store.poll_push() {
            self.receive(connection, &push);
        }
    }

    fn receive(&mut self, connection: u64, bytes: &[u8]) {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let text = text.replace(">2\r\n$10\r\ninvalidate\r\n", ">");
        let sent = self.sent.entry(connection).or_default();
        sent.push_str(&text.replace("\r\n", "|"));
    }

    /// Each line is `client: command`, or `client < all that was sent to it since the last such
    /// line`, or `+n` to let n milliseconds pass, or `expire`.
    #[track_caller]
    fn story(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let name = line.chars().next().unwrap();
            match line[1..].split_once([':', '<']) {
                Some((_, command)) if line[1..].starts_with(':') => self.run(name, command.trim()),
                Some((_, expected)) => {
                    let sent = self.sent.remove(&u64::from(name)).unwrap_or_default();
                    assert_eq!(sent, expected.trim(), "{line}");
                }
                None if name == '+' => self.now += line[1..].parse::<u64>().unwrap(),
                None => {
                    self.store.expire(Instant::from_millis(self.now));
                    self.deliver();
                }
            }
        }
    }
}

/// A registration outlives `CLIENT TRACKING OFF` and `HELLO 2`; what they cost is the push.
#[test]
fn pushes_need_tracking_and_resp3_when_they_are_due() {
    let mut clients = Clients::new();
    clients.story(
        "
        a: client caching yes
        a: get k
        a: client tracking off
        a: client tracking on optin noloop
        a < +OK|_|+OK|+OK|
        o: set k v
        a < >*1|$1|k|
        a: client caching yes
        a: get k
        a: client tracking off
        a < +OK|$1|v|+OK|
        o: set k w
        a: client tracking on optin noloop
        o: set k v
        a < +OK|
        o: client tracking on optin noloop
        o: client caching yes
        o: get k
        a: set k w
        o < +OK|+OK|+OK|+OK|+OK|$1|v|
        o: client caching yes
        o: get k
        ",
    );
    clients.run('o', "hello 3");
    clients.sent.clear();
    clients.story("a: set k v\no < >*1|$1|k|");
}

#[test]
fn what_the_node_does_not_know_is_refused() {
    let off = "-ERR CLIENT CACHING without CLIENT TRACKING ON OPTIN|";
    let other = "-ERR this embedded node tracks only with OPTIN and NOLOOP; use a redis-server for \
                 others|";
    let syntax = "-ERR syntax error|";
    let mut clients = Clients::new();
    for (line, reply) in [
        ("client caching x", syntax),
        ("client tracking on", other),
        ("client tracking on noloop", other),
        ("client tracking on optin noloop redirect 7", other),
        ("client tracking on optout noloop", other),
        ("client tracking off", "+OK|"),
        ("client caching x", off),
    ] {
        clients.run('a', line);
        clients.story(&std::format!("a < {reply}"));
    }
}

#[test]
fn nothing_is_left_of_a_client_that_has_gone() {
    let mut clients = Clients::new();
    clients.story(
        "
        a: client caching yes
        a: get k
        b: client caching yes
        b: get k
        b: client caching yes
        b: get l
        ",
    );
    clients.sent.clear();
    let [a, b] = ['a', 'b'].map(|name| clients.sessions[&name].clone());
    clients.store.disconnect(&b);
    assert!(clients.store.has_registrations());
    clients.story("o: set k v\no: flushall\nb <\na < >*1|$1|k|>_|");

    // A push that was not fetched in time is not sent.
    clients.story("a: client caching yes\na: get k");
    let command: [&[u8]; 3] = [b"SET", b"k", b"v"];
    let session = clients.sessions.get_mut(&'o').unwrap();
    let now = Instant::ZERO;
    let store = &mut clients.store;
    store.execute(session, now, &command, &mut Vec::new());
    store.disconnect(&a);
    assert_eq!(clients.store.poll_push(), None);
    assert!(!clients.store.has_registrations());
}

#[test]
fn a_restart_forgets_who_tracks() {
    for memory in [Memory::Kept, Memory::Lost] {
        let mut clients = Clients::new();
        clients.story("a: client caching yes\na: get k");
        clients.store.restart(2, Instant::ZERO, memory);
        assert!(!clients.store.has_registrations());
        clients.sent.clear();
        clients.sessions.insert('o', Store::session_of(7));
        clients.story("o: set k v\no: flushall\na <\nb <");
    }
}

/// A client of a node that tracks.
pub(in crate::embedded) fn tracker(node: &EmbeddedNode) -> TcpStream {
    let mut stream = client(node);
    send(&mut stream, "hello 3");
    send(&mut stream, "client tracking on optin noloop");
    let hello = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n\
                 :3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\
                 \r\n$7\r\nmodules\r\n*0\r\n+OK\r\n";
    let mut bytes = std::vec![0; hello.len()];
    stream.read_exact(&mut bytes).unwrap();
    stream
}

const PUSH: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";

pub(in crate::embedded) fn register(stream: &mut TcpStream, reply: &str) {
    ask(stream, "client caching yes", "+OK\r\n");
    ask(stream, "pttl k", reply);
}

#[test]
fn a_node_sends_pushes_to_a_client_that_only_waits() {
    let node = EmbeddedNode::spawn().unwrap();
    let mut waiter = tracker(&node);
    let mut other = client(&node);
    register(&mut waiter, ":-2\r\n");
    send(&mut other, "set k v");
    receive(&mut waiter, PUSH);
    register(&mut waiter, ":-1\r\n");
    send(&mut other, "del k");
    receive(&mut waiter, PUSH);
    let mut both = Vec::new();
    resp::command(&mut both, &[b"FLUSHALL"]);
    resp::command(&mut both, &[b"PING"]);
    waiter.write_all(&both).unwrap();
    let all = "+OK\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n+PONG\r\n";
    receive(&mut waiter, all);
}

/// The node serves the two clients in any order, but it answers all commands of one before it serves the other.
#[test]
fn a_push_stands_where_the_change_was_among_the_replies() {
    let node = EmbeddedNode::spawn().unwrap();
    let (mut waiter, mut other) = (tracker(&node), client(&node));
    register(&mut waiter, ":-2\r\n");
    node.pause().unwrap();
    let mut pings = Vec::new();
    resp::command(&mut pings, &[b"PING", b"a"]);
    resp::command(&mut pings, &[b"PING", b"b"]);
    waiter.write_all(&pings).unwrap();
    send(&mut other, "set k v");
    node.resume().unwrap();
    let replies = "$1\r\na\r\n$1\r\nb\r\n";
    let orders = [[replies, PUSH].concat(), [PUSH, replies].concat()];
    let mut bytes = std::vec![0; orders[0].len()];
    waiter.read_exact(&mut bytes).unwrap();
    assert!(orders.iter().any(|order| order.as_bytes() == bytes));
}
