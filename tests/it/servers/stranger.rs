//! Listeners at the address of a node, which are not Redis servers.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// How a [`Stranger`] treats a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// Reads a line and answers as a web server does to an unknown request, then closes.
    Http,
    /// Closes as soon as it has accepted.
    Closes,
    /// Answers everything with bytes that are not RESP, and stays.
    Garbage,
    /// Accepts, reads, and never answers.
    Silent,
}

/// A listener of the given manner on a loopback port of its own.
#[derive(Debug)]
pub(crate) struct Stranger {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Stranger {
    pub(crate) fn new(manner: Manner) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let closed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&closed);
        thread::spawn(move || {
            for visitor in listener.incoming().flatten() {
                if flag.load(Ordering::Acquire) {
                    return;
                }
                thread::spawn(move || receive(visitor, manner));
            }
        });
        Self { address, closed }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the accepting thread, which then sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

fn receive(mut visitor: TcpStream, manner: Manner) {
    let mut buffer = [0; 4096];
    if manner == Manner::Closes {
        return;
    }
    while let Ok(1..) = visitor.read(&mut buffer) {
        let answer: &[u8] = match manner {
            Manner::Http => b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
            Manner::Garbage => b"\x00\xff garbage \r\n\x16\x03\x01 more of it\r\n",
            Manner::Closes | Manner::Silent => b"",
        };
        if visitor.write_all(answer).is_err() || manner == Manner::Http {
            return;
        }
    }
}
