//! Replies that servers make from the result of a script, read by the codec.
//!
//! Each story runs on Redis and on Valkey.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use shearline::resp::{Inbox, Limits, OwnedValue, command, encode};

use crate::servers::{Options, Server, uninterrupted};

/// The answer of each server to `EVAL script 0` in RESP3, as bytes and as the codec reads it.
fn replies(script: &str, limits: Limits) -> [(Vec<u8>, OwnedValue); 2] {
    [Options::redis(), Options::valkey()].map(|options| {
        let server = Server::with(&options);
        let mut stream = TcpStream::connect(server.address()).expect("the server listens");
        let patience = Some(Duration::from_secs(10));
        stream.set_read_timeout(patience).expect("not zero");
        ask(&mut stream, &["HELLO", "3"], limits);
        ask(&mut stream, &["EVAL", script, "0"], limits)
    })
}

fn ask(stream: &mut TcpStream, words: &[&str], limits: Limits) -> (Vec<u8>, OwnedValue) {
    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    let mut request = Vec::new();
    command(&mut request, &words);
    stream.write_all(&request).expect("the server reads");
    let mut inbox = Inbox::new(limits);
    let mut sent = Vec::new();
    loop {
        let mut room = [0; 4096];
        let count = uninterrupted(|| stream.read(&mut room)).expect("the server answers");
        assert!(count > 0, "the server closed");
        sent.extend_from_slice(&room[..count]);
        let mut piece = &room[..count];
        if let Some(frame) = inbox.next(&mut piece).expect("a valid reply") {
            assert!(piece.is_empty(), "one reply");
            return (sent, frame.to_owned());
        }
    }
}

#[test]
fn a_big_number_keeps_the_sign_that_the_server_sent() {
    not_with!(
        Redis62 | NoScripts,
        "asks by scripts for big numbers, which are not there"
    );
    let script = "redis.setresp(3); return {big_number='+12'}";
    for (sent, value) in replies(script, Limits::DEFAULT) {
        assert_eq!(sent, b"(+12\r\n");
        assert_eq!(value, OwnedValue::BigNumber(b"+12"[..].into()));
        let mut again = Vec::new();
        encode(&mut again, &value);
        assert_eq!(again, sent);
    }
}

#[test]
fn doubles_of_all_kinds_are_decoded() {
    not_with!(NoScripts, "asks by scripts what servers send");
    let script = "redis.setresp(3); \
        return {{double=1e300}, {double=-1.5}, {double=-1/0}, {double=0/0}}";
    let doubles = [1e300, -1.5, f64::NEG_INFINITY, f64::NAN];
    for (_, value) in replies(script, Limits::DEFAULT) {
        assert_eq!(value, OwnedValue::array(doubles.map(OwnedValue::Double)));
    }
}

/// The deepest nesting that a script can return on either server.
#[test]
fn the_deepest_reply_of_a_script_is_decoded() {
    not_with!(NoScripts, "asks by scripts what servers send");
    const LEVELS: usize = 7_994;
    let script = format!("local t = 7; for i = 1, {LEVELS} do t = {{t}} end; return t");
    for (_, value) in replies(&script, Limits::REDIS) {
        let innermost = (0..LEVELS).fold(&value, |value, level| {
            let items = value.as_items().unwrap_or_else(|| panic!("level {level}"));
            &items[0]
        });
        assert_eq!(innermost, &OwnedValue::Integer(7));
    }
}
