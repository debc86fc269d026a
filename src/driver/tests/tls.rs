//! What a driver owes to a node with TLS.

use super::*;
use crate::driver::tls::peer::{Peer, Stream};
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::sync::mpsc;

/// Of how many bytes the kernel is asked to keep no more, on each side.
const KEPT: usize = 4 << 10;

/// More names of a kilobyte than that.
const MANY: usize = 500;

/// So many more are asked for when the kernel is full.
const REST: usize = 64;

/// The name in a command about a lock: a `SET` has it in front of the token, a script too.
fn name_in(words: &[String]) -> &str {
    match words[0].as_str() {
        "SET" => &words[1],
        _ => &words[3],
    }
}

/// What was encrypted cannot be taken back, so the release of such a `SET` is owed and sent, also if the
/// kernel had none of it when the acquisition ended. What was not encrypted is withdrawn.
#[test]
fn a_set_that_was_encrypted_is_released() {
    let tls = Peer::new(|_| {});
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    sockopt::set_socket_recv_buffer_size(&listener, KEPT).unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    let mut connection = Some(tls.accept());
    let (go_on, stopped) = mpsc::channel::<()>();
    let node = thread::spawn(move || {
        let peer = listener.accept().unwrap().0;
        let stream = Stream::new(connection.take().unwrap(), peer);
        let mut asked: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let _ = serve(stream, |word, words| {
            if name_in(words).len() == 1000 && asked.len() == 1 {
                stopped.recv().unwrap();
            }
            let name = name_in(words).into();
            asked.entry(name).or_default().push(word.into());
            Some(if word == "SET" { "+OK\r\n" } else { ":1\r\n" })
        });
        asked
    });
    let builder = patient([url]).tls(tls.options());
    let mut driver = builder.build_driver().unwrap();
    let lock = take_lock(&mut driver);
    driver.release(lock).unwrap();
    next_event(&mut driver);

    sockopt::set_socket_send_buffer_size(driver.inner.wire.socket(), KEPT).unwrap();
    let name = |index: usize| format!("{index:01000}");
    let begin = |driver: &mut Driver, index| {
        let options = LockOptions::new(TTL);
        let round = driver.acquire(name(index).as_bytes(), &options).unwrap();
        driver.flush();
        round
    };
    let mut rounds = vec![];
    while !driver.inner.wire.socket().has_unsent() {
        assert!(rounds.len() < MANY, "the kernel takes everything");
        rounds.push(begin(&mut driver, rounds.len()));
    }
    // On a busy machine the kernel may take some of them later.
    for _ in 0..REST {
        rounds.push(begin(&mut driver, rounds.len()));
    }
    let all = rounds.len();
    for round in rounds {
        driver.cancel(round);
    }
    driver.flush();
    go_on.send(()).unwrap();
    driver.shut_down(PATIENCE);

    let asked = node.join().unwrap();
    let encrypted = (0..all).take_while(|index| asked.contains_key(&name(*index)));
    let encrypted = encrypted.count();
    assert_eq!(asked.len(), encrypted + 1, "the others were withdrawn");
    assert!(encrypted < all, "the kernel takes everything");
    for index in 0..encrypted {
        let asked = kinds(&asked[&name(index)]);
        assert_eq!(asked, ["SET", "release"], "{index} of {encrypted}");
    }
}
