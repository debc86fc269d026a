//! The two sides of the comparison behind one interface: commands in, replies and pushes out.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{self, Duration};

use shearline::Instant;
use shearline::embedded::EmbeddedNode;
use shearline::internals::resp::{Decoder, Limits, command};
use shearline::internals::{Flavour, Session, Store};

/// The side that is compared with the server.
pub(super) enum Model {
    Store(Box<Pure>),
    Node(EmbeddedNode),
}

/// A store, and the state between it and its clients.
pub(super) struct Pure {
    store: Store,
    start: time::Instant,
    /// The number of connections so far.
    connections: u64,
    /// The bytes that were sent to each connection and not read.
    sent: BTreeMap<u64, Vec<u8>>,
}

/// One client of either side.
pub(super) enum Connection {
    Remote(Remote),
    Local(Session, u64),
}

/// A client of something with a socket.
pub(super) struct Remote {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The input of a connection: one reply for each command, and pushes with the number of replies before them.
#[derive(Default)]
pub(super) struct Received {
    pub(super) replies: Vec<Vec<u8>>,
    pub(super) pushes: Vec<(usize, Vec<u8>)>,
}

impl Model {
    pub(super) fn store(flavour: Flavour, password: Option<&str>) -> Self {
        let mut store = Store::new(1, Instant::ZERO);
        store.set_flavour(flavour);
        store.set_password(password.map(str::as_bytes));
        Self::Store(Box::new(Pure {
            store,
            start: time::Instant::now(),
            connections: 0,
            sent: BTreeMap::new(),
        }))
    }

    pub(super) fn node(flavour: Flavour, password: Option<&str>) -> Self {
        let node = EmbeddedNode::spawn_with(|store| {
            store.set_flavour(flavour);
            store.set_password(password.map(str::as_bytes));
        });
        Self::Node(node.expect("a node"))
    }

    pub(super) fn connect(&mut self) -> Connection {
        match self {
            Self::Store(pure) => {
                pure.connections += 1;
                let session = Store::session_of(pure.connections);
                Connection::Local(session, pure.connections)
            }
            Self::Node(node) => Connection::Remote(Remote::connect(node.address())),
        }
    }

    /// Lets a store notice which keys have ended. A node notices it by itself.
    pub(super) fn expire(&mut self) {
        if let Self::Store(pure) = self {
            let now = pure.now();
            pure.store.expire(now);
            pure.deliver();
        }
    }
}

impl Pure {
    fn now(&self) -> Instant {
        Instant::ZERO.saturating_add(self.start.elapsed())
    }

    fn run(&mut self, session: &mut Session, number: u64, words: &[Vec<u8>]) {
        let now = self.now();
        let out = self.sent.entry(number).or_default();
        self.store.execute(session, now, &slices(words), out);
        self.deliver();
    }

    fn deliver(&mut self) {
        while let Some((number, push)) = self.store.poll_push() {
            self.sent.entry(number).or_default().extend(push);
        }
    }
}

impl Connection {
    /// Sends the commands together, if there is a wire, and reads until each has its reply.
    pub(super) fn exchange(&mut self, model: &mut Model, batch: &[Vec<Vec<u8>>]) -> Received {
        let mut read = Received::default();
        match (self, model) {
            // Send a few at a time: a server closes a client that is not authenticated when a KiB of replies waits for
            // it.
            (Self::Remote(remote), _) => {
                for few in batch.chunks(3) {
                    remote.exchange_at_once(few, &mut read);
                }
            }
            (Self::Local(session, number), Model::Store(pure)) => {
                for words in batch {
                    pure.run(session, *number, words);
                }
                let mut sent = pure.sent.remove(number).unwrap_or_default();
                read.take(&mut Decoder::new(Limits::default()), &mut sent);
                assert_eq!((read.replies.len(), sent.len()), (batch.len(), 0));
            }
            (Self::Local(..), Model::Node(_)) => unreachable!("a node has remote clients only"),
        }
        read
    }

    /// Sends a single command, whose reply comes without pushes.
    #[track_caller]
    pub(super) fn ask(&mut self, model: &mut Model, line: &str) -> String {
        let words = line.split(' ').map(Vec::from).collect();
        let mut read = self.exchange(model, &[words]);
        assert_eq!(read.pushes, [], "{line}");
        String::from_utf8(read.replies.remove(0)).expect("a text")
    }

    /// Returns the pushes that have been sent to this connection.
    pub(super) fn pushes(&mut self, model: &mut Model) -> Vec<Vec<u8>> {
        let read = self.exchange(model, &[vec![b"PING".to_vec()]]);
        read.pushes.into_iter().map(|(_, push)| push).collect()
    }

    pub(super) fn close(self, model: &mut Model) {
        if let (Self::Local(session, number), Model::Store(pure)) = (self, model) {
            pure.store.disconnect(&session);
            pure.sent.remove(&number);
        }
    }
}

impl Received {
    /// Takes whole frames from the front of `bytes`.
    fn take(&mut self, decoder: &mut Decoder, bytes: &mut Vec<u8>) {
        while let Some(frame) = decoder.decode(bytes).expect("a reply") {
            let len = frame.len;
            let frame: Vec<u8> = bytes.drain(..len).collect();
            match frame[0] {
                b'>' => self.pushes.push((self.replies.len(), frame)),
                _ => self.replies.push(frame),
            }
        }
    }
}

impl Remote {
    pub(super) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).expect("not zero");
        let received = Vec::new();
        Self { stream, received }
    }

    fn exchange_at_once(&mut self, batch: &[Vec<Vec<u8>>], read: &mut Received) {
        let mut bytes = Vec::new();
        for words in batch {
            command(&mut bytes, &slices(words));
        }
        self.stream.write_all(&bytes).expect("it reads");
        let wanted = read.replies.len() + batch.len();
        let mut decoder = Decoder::new(Limits::default());
        let mut piece = [0; 64 << 10];
        loop {
            read.take(&mut decoder, &mut self.received);
            if read.replies.len() >= wanted {
                assert_eq!(read.replies.len(), wanted, "more replies");
                return;
            }
            match uninterrupted(|| self.stream.read(&mut piece)).expect("it answers") {
                0 => panic!("closed, {} of {wanted} replies", read.replies.len()),
                len => self.received.extend_from_slice(&piece[..len]),
            }
        }
    }
}

fn slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

/// Repeats a read that was interrupted because this process was stopped, which ends a read with a time limit.
fn uninterrupted(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
