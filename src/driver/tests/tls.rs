//! The debts of a driver to a node with TLS.

use super::*;
use crate::driver::tls::peer::{Peer, Stream};
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::sync::mpsc;

/// The size of the buffers that the kernel is asked for, on each side.
const KEPT: usize = 4 << 10;

/// A number of names of a kilobyte each that do not fit into these buffers.
const MANY: usize = 500;

/// The number of further locks that are asked for when the kernel is full.
const REST: usize = 64;

/// Returns the name in a command about a lock. In a `SET` and in a script, it is right before the token.
fn name_in(words: &[String]) -> &str {
    match words[0].as_str() {
        "SET" => &words[1],
        _ => &words[3],
    }
}

/// Encrypted bytes cannot be withdrawn, so the release of a `SET` in them is sent, even if the kernel had none of the
/// bytes when the acquisition ended. A `SET` that was not encrypted yet is withdrawn.
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
    // On a busy machine, the kernel may take some of these bytes later.
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
