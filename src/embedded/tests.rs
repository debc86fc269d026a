//! The store by tables, the node by stories. The replies were read from a redis-server 7.0.15 and
//! a valkey-server 9.1.2.

pub(super) mod tracking;

use std::collections::BTreeSet;
use std::format;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::string::{String, ToString};
use std::vec::Vec;

use core::time::Duration;

use super::flavour::Flavour;
use super::session::Session;
use super::store::Store;
use super::{EmbeddedNode, Memory};
use crate::limits::{REPLY_BYTES_MAX, RESOURCE_BYTES_MAX};
use crate::node::{EXTEND, LIST_NAMES, RELEASE};
use crate::resp;
use crate::time::Instant;

/// A store with one client.
struct World {
    store: Store,
    session: Session,
    now: u64,
}

impl World {
    fn new() -> Self {
        Self {
            store: Store::new(1, Instant::ZERO),
            session: Store::session_of(1),
            now: 0,
        }
    }

    /// The reply to a line of words. `R`, `E` and `L` stand for the scripts, `r` and `e` for their
    /// digests, CR LF is shown as `|`.
    fn reply(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line
            .split(' ')
            .map(|word| match word {
                "R" => RELEASE.text.as_bytes(),
                "E" => EXTEND.text.as_bytes(),
                "L" => LIST_NAMES.text.as_bytes(),
                "r" => RELEASE.sha1.as_bytes(),
                "e" => EXTEND.sha1.as_bytes(),
                word => word.as_bytes(),
            })
            .collect();
        let mut out = Vec::new();
        let now = Instant::from_millis(self.now);
        self.store.execute(&mut self.session, now, &words, &mut out);
        String::from_utf8(out).unwrap().replace("\r\n", "|")
    }

    /// Each line is `command => reply`, or `+n` to let n milliseconds pass.
    #[track_caller]
    fn story(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_once(" => ") {
                Some((command, reply)) => assert_eq!(self.reply(command), reply, "{command}"),
                None => self.now += line.strip_prefix('+').unwrap().parse::<u64>().unwrap(),
            }
        }
    }
}

#[test]
fn a_key_lives_until_its_last_millisecond_has_passed() {
    World::new().story(
        "
        set k a nx px 100 => +OK|
        pttl k => :100|
        +100
        pttl k => :0|
        set k b nx px 100 => $-1|
        get k => $1|a|
        +1
        pttl k => :-2|
        del k => :0|
        set k b nx px 100 => +OK|
        set k c px 50 xx => +OK|
        get k => $1|c|
        set k d keepttl => +OK|
        pttl k => :50|
        set k e => +OK|
        pttl k => :-1|
        pexpire k 10 => :1|
        pexpire k 0 => :1|
        get k => $-1|
        set k a px 100 => +OK|
        set kept a => +OK|
        eval L 0 0 k => *3|:0|*2|$4|kept|$1|k|$1|0|
        +101
        eval L 0 0 k => *3|:0|*1|$4|kept|$1|0|
        ",
    );
}

#[test]
fn a_proxied_node_knows_neither_client_nor_info() {
    let mut world = World::new();
    world.store.set_flavour(Flavour::Proxied);
    world.story(
        "
        client setname me => -ERR unknown command 'client'|
        client => -ERR unknown command 'client'|
        INFO server => -ERR unknown command 'INFO'|
        set k t nx px 1000 => +OK|
        pttl k => :1000|
        hello 3 setname me => %7|$6|server|$5|redis|$7|version|$6|7.0.15|\
            $5|proto|:3|$2|id|:1|$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|
        ",
    );
}

#[test]
fn replies_are_spelled_as_the_protocol_has_them() {
    let hello = "$6|server|$5|redis|$7|version|$6|7.0.15|$5|proto|:P|$2|id|:1|$4|mode|\
        $10|standalone|$4|role|$6|master|$7|modules|*0|";
    let memory = "# Memory|maxmemory:0|maxmemory_policy:noeviction||";
    let mut world = World::new();
    for (protocol, map, text, null, null_array) in [
        ("2", "*14", "$52|", "$-1|", "*-1|"),
        ("3", "%7", "=56|txt:", "_|", "_|"),
    ] {
        let hello = hello.replace('P', protocol);
        world.story(&std::format!(
            "
            hello {protocol} => {map}|{hello}
            info memory => {text}{memory}
            get none => {null}
            watch k => +OK|
            set k t => +OK|
            multi => +OK|
            get k => +QUEUED|
            exec => {null_array}
            multi => +OK|
            get l => +QUEUED|
            setnx k => -ERR wrong number of arguments for 'setnx' command|
            discard => +OK|
            multi => +OK|
            get l => +QUEUED|
            evalsha r 0 => +QUEUED|
            exec => *2|{null}-NOSCRIPT No matching script. Please use EVAL.|
            "
        ));
    }
}

/// Other keys come and go between the replies.
#[test]
fn names_are_listed_in_several_replies() {
    let mut world = World::new();
    let name = |number: u32| format!("{number:0>RESOURCE_BYTES_MAX$}");
    let names: BTreeSet<String> = (0..120).map(name).collect();
    for name in &names {
        world.reply(&format!("set {name} t"));
    }
    let (mut listed, mut cursor) = (BTreeSet::new(), String::from("0"));
    for other in 200..203 {
        let reply = world.reply(&format!("eval L 0 {cursor} 0"));
        assert!(reply.len() < REPLY_BYTES_MAX);
        let texts = reply
            .split('|')
            .filter(|it| !it.starts_with(['*', ':', '$']));
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        let (next, pieces) = texts.split_last().unwrap();
        let text = pieces.concat();
        let places = (0..text.len()).step_by(RESOURCE_BYTES_MAX);
        listed.extend(places.map(|at| text[at..at + RESOURCE_BYTES_MAX].to_string()));
        cursor = next.to_string();
        world.reply(&format!("del {}", name(other - 1)));
        world.reply(&format!("set {} t", name(other)));
    }
    assert_eq!(cursor, "0");
    assert!(names.is_subset(&listed));
}

#[test]
fn a_restart_changes_the_identity_and_forgets_the_scripts() {
    let mut world = World::new();
    world.story("set k t => +OK|\nscript load R => $40|4453c08d4b7260dfec522c1d9be6140ee00157cb|");
    let before = (world.reply("info server"), world.reply("info replication"));
    for (seed, memory, keys) in [(2, Memory::Kept, 1), (3, Memory::Lost, 0)] {
        world.store.restart(seed, Instant::ZERO, memory);
        assert_ne!(world.reply("info server"), before.0);
        assert_ne!(world.reply("info replication"), before.1);
        assert_eq!(world.store.keys(Instant::ZERO), keys);
        world.story("evalsha r 0 => -NOSCRIPT No matching script. Please use EVAL.|");
    }
}

/// A blocking client.
fn client(node: &EmbeddedNode) -> TcpStream {
    let stream = TcpStream::connect(node.address()).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream
}

fn send(stream: &mut TcpStream, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut bytes = Vec::new();
    resp::command(&mut bytes, &words);
    stream.write_all(&bytes).unwrap();
}

#[track_caller]
fn receive(stream: &mut TcpStream, expected: &str) {
    let mut bytes = std::vec![0; expected.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(
        bytes.escape_ascii().to_string(),
        expected.as_bytes().escape_ascii().to_string()
    );
}

#[track_caller]
fn ask(stream: &mut TcpStream, line: &str, reply: &str) {
    send(stream, line);
    receive(stream, reply);
}

/// Whether the other side has closed, by an end or by a reset.
fn is_over(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_stopped_node_refuses_and_comes_back_on_its_port() {
    let node = EmbeddedNode::spawn().unwrap();
    let address = node.address();
    for (memory, value) in [(Memory::Kept, Some(b"t".to_vec())), (Memory::Lost, None)] {
        let mut stream = client(&node);
        ask(&mut stream, "set k t", "+OK\r\n");
        node.stop().unwrap();
        node.stop().unwrap();
        assert!(is_over(&mut stream));
        assert!(TcpStream::connect(address).is_err());
        assert_eq!(node.get("k"), Some(b"t".to_vec()));
        node.restart(memory).unwrap();
        assert_eq!((node.address(), node.get("k")), (address, value));
        send(&mut client(&node), "ping");
    }
    drop(node);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_paused_node_executes_later_what_came_meanwhile() {
    let node = EmbeddedNode::spawn().unwrap();
    let mut open = client(&node);
    ask(&mut open, "ping", "+PONG\r\n");
    node.pause().unwrap();
    send(&mut open, "set a 1");
    let mut closed = client(&node);
    send(&mut closed, "set b 2");
    drop(closed);
    // When the second of these is done, the node has seen all that was sent before the first.
    node.pause().unwrap();
    node.pause().unwrap();
    assert_eq!(node.keys(), 0);
    node.resume().unwrap();
    receive(&mut open, "+OK\r\n");
    while node.keys() < 2 {
        std::thread::yield_now();
    }
}

#[test]
fn commands_come_in_any_pieces_and_many_at_once() {
    let node = EmbeddedNode::spawn().unwrap();
    let mut stream = client(&node);
    let mut bytes = Vec::new();
    resp::command(&mut bytes, &[b"SET", b"k\r\n", b"v\0"]);
    resp::command(&mut bytes, &[b"GET", b"k\r\n"]);
    for byte in &bytes {
        stream.write_all(&[*byte]).unwrap();
    }
    receive(&mut stream, "+OK\r\n$2\r\nv\0\r\n");

    // More replies than all buffers on the way hold, read only after the last command was sent.
    let value = "x".repeat(10_000);
    ask(&mut stream, &std::format!("set k {value}"), "+OK\r\n");
    let reply = std::format!("$10000\r\n{value}\r\n");
    for _ in 0..3_000 {
        send(&mut stream, "get k");
    }
    for _ in 0..3_000 {
        receive(&mut stream, &reply);
    }
}

#[test]
fn what_is_no_command_ends_the_connection() {
    let node = EmbeddedNode::spawn().unwrap();
    let error = "-ERR Protocol error: no array of bulk strings\r\n";
    for bytes in [
        "GET / HTTP/1.1\r\n\r\n",
        "*1\r\n:1\r\n",
        "*-2\r\n",
        "*1\r\n$2000000\r\n",
    ] {
        let mut stream = client(&node);
        stream.write_all(b"*0\r\n*1\r\n$4\r\nping\r\n").unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        receive(&mut stream, "+PONG\r\n");
        receive(&mut stream, error);
        assert!(is_over(&mut stream), "{bytes}");
    }
}

#[test]
fn a_node_asks_for_its_password_and_does_not_show_it() {
    let password = "p@ss/ä";
    let node = EmbeddedNode::spawn_with(|store| store.set_password(Some(password.as_bytes())));
    let node = node.unwrap();
    let shown = std::format!("{node:?}");
    assert!(!shown.contains("p@ss"), "{shown}");
    let mut stream = client(&node);
    ask(&mut stream, "get k", "-NOAUTH Authentication required.\r\n");
    ask(&mut stream, "auth p@ss/ä", "+OK\r\n");
}

#[test]
fn a_node_votes_at_once_unless_it_is_fresh_or_was_restarted() {
    let ttl = Duration::from_secs(60);
    for (node, is_fresh) in [
        (EmbeddedNode::spawn().unwrap(), false),
        (
            EmbeddedNode::spawn_with(|store| store.set_up_before(Duration::ZERO)).unwrap(),
            true,
        ),
    ] {
        let handle = || {
            let builder = crate::Redlock::builder().node(node.url()).max_ttl(ttl);
            builder.build_local().unwrap()
        };
        let is_quarantined = || {
            let state = handle().nodes()[0].state;
            matches!(state, crate::NodeState::Quarantined { .. })
        };
        assert_eq!(is_quarantined(), is_fresh);
        node.restart(Memory::Kept).unwrap();
        assert!(is_quarantined());
    }
}

#[test]
fn a_key_that_is_removed_is_told_to_those_who_wait_for_it() {
    let node = EmbeddedNode::spawn().unwrap();
    let mut waiter = tracking::tracker(&node);
    assert!(!node.remove("k"));
    let mut holder = client(&node);
    ask(&mut holder, "SET k token", "+OK\r\n");
    tracking::register(&mut waiter, ":-1\r\n");
    assert!(node.remove("k"));
    receive(&mut waiter, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    assert_eq!(node.get("k"), None);
}
