//! A relay that loses nothing: it passes to a server every byte that the kernel took from a program, also
//! when the program has ended and does not hear the answers any more.
//!
//! A server by itself does not always: if a program ends with answers unread, its connection is reset,
//! and a server that is about to answer then drops what it has not read (seen in 1 of 900 programs
//! that drop 32 guards and end; on a busy machine on two nodes at once).
//!
//! It does nothing else to what passes: that is [`Proxy`](super::Proxy).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use super::Server;
use super::permitted::credentials;

/// Relays to one server, for as long as the test binary lives.
#[derive(Debug)]
pub(crate) struct Relay {
    port: u16,
    /// Held by every thread that moves bytes.
    open: Arc<()>,
}

impl Relay {
    pub(crate) fn to(server: &Server) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let open = Arc::new(());
        let (server, held) = (server.address(), Arc::downgrade(&open));
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a program");
                let (Some(open), Ok(server)) = (held.upgrade(), TcpStream::connect(server)) else {
                    return;
                };
                let (from, to) = (
                    client.try_clone().expect("a descriptor"),
                    server.try_clone().expect("a descriptor"),
                );
                let answers = Arc::clone(&open);
                thread::spawn(move || pass(from, to, open));
                thread::spawn(move || pass(server, client, answers));
            }
        });
        Self { port, open }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}", credentials(), self.port)
    }

    /// Returns `true` if every connection has ended on both sides.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.open) == 1
    }
}

/// Passes bytes until the sender ends, and goes on reading if the receiver has ended.
fn pass(mut from: TcpStream, mut to: TcpStream, _open: Arc<()>) {
    for stream in [&from, &to] {
        stream.set_nodelay(true).expect("a socket option");
    }
    let mut buffer = [0; 4 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let _ = to.write_all(&buffer[..len]);
    }
    let _ = to.shutdown(Shutdown::Write);
}
