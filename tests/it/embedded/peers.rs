//! The two sides of the comparison behind one interface: commands in, replies out.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{self, Duration};

use shearline::Instant;
use shearline::embedded::{EmbeddedNode, Session, Store};
use shearline::resp::{Decoder, Limits, command};

use crate::servers::uninterrupted;

/// The side that is compared with the server.
pub(super) enum Model {
    Store(Store, time::Instant),
    Node(EmbeddedNode),
}

/// One client of either side.
pub(super) enum Connection {
    Remote(Remote),
    Local(Session),
}

/// A client of something with a socket.
pub(super) struct Remote(TcpStream);

impl Model {
    pub(super) fn store(password: Option<&str>) -> Self {
        let mut store = Store::new(1, Instant::ZERO);
        store.set_password(password.map(str::as_bytes));
        Self::Store(store, time::Instant::now())
    }

    pub(super) fn connect(&mut self) -> Connection {
        match self {
            Self::Store(store, _) => Connection::Local(store.session()),
            Self::Node(node) => Connection::Remote(Remote::connect(node.address())),
        }
    }
}

impl Connection {
    /// Sends the commands together, if there is a wire, and gives one reply for each.
    pub(super) fn exchange(&mut self, model: &mut Model, batch: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
        match (self, model) {
            (Self::Remote(remote), _) => remote.exchange(batch),
            (Self::Local(session), Model::Store(store, start)) => {
                let now = Instant::ZERO.saturating_add(start.elapsed());
                let mut run = |words: &Vec<Vec<u8>>| {
                    let mut out = Vec::new();
                    store.execute(session, now, &slices(words), &mut out);
                    out
                };
                batch.iter().map(&mut run).collect()
            }
            (Self::Local(_), Model::Node(_)) => unreachable!("a node has remote clients only"),
        }
    }
}

impl Remote {
    pub(super) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).expect("not zero");
        Self(stream)
    }

    /// Sends a few at a time: a server closes a client that is not authenticated when a KiB of
    /// replies waits for it.
    fn exchange(&mut self, batch: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
        let few = batch.chunks(4).map(|few| self.exchange_at_once(few));
        few.collect::<Vec<_>>().concat()
    }

    fn exchange_at_once(&mut self, batch: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        for words in batch {
            command(&mut bytes, &slices(words));
        }
        self.0.write_all(&bytes).expect("it reads");
        let mut decoder = Decoder::new(Limits::default());
        let mut replies = Vec::new();
        let mut received = Vec::new();
        let mut piece = [0; 64 << 10];
        loop {
            while let Some(frame) = decoder.decode(&received).expect("a reply") {
                let len = frame.len;
                replies.push(received.drain(..len).collect());
            }
            if replies.len() >= batch.len() {
                assert_eq!(
                    (replies.len(), received.len()),
                    (batch.len(), 0),
                    "more replies"
                );
                return replies;
            }
            match uninterrupted(|| self.0.read(&mut piece)).expect("it answers") {
                0 => panic!("closed, and {} of {} replies", replies.len(), batch.len()),
                len => received.extend_from_slice(&piece[..len]),
            }
        }
    }
}

fn slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}
