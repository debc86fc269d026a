//! A TCP relay in front of a server that can hold answers back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Relays to one server. Commands pass at once; answers wait for the delay that is set when they
/// arrive, and keep their order. It starts with no delay.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    delay_millis: AtomicU64,
    closed: AtomicBool,
}

impl Proxy {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.closed.load(Ordering::Acquire) {
                    return;
                }
                if let Ok(server) = TcpStream::connect(server) {
                    relay(client, server, &accepting);
                }
            }
        });
        Self { address, shared }
    }

    /// Answers that arrive from now on wait this long.
    pub(crate) fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).expect("a short delay");
        self.shared.delay_millis.store(millis, Ordering::Release);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // Wakes the accepting thread, which then sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

/// Both directions of one connection. The threads end when either side closes.
fn relay(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a socket option");
    }
    let commands = (clone(&client), clone(&server));
    thread::spawn(move || forward(commands.0, commands.1));

    let (sender, answers) = mpsc::channel::<(Instant, Vec<u8>)>();
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        read_all(server, |bytes| {
            let delay = Duration::from_millis(shared.delay_millis.load(Ordering::Acquire));
            sender
                .send((Instant::now() + delay, bytes.to_vec()))
                .is_ok()
        });
    });
    thread::spawn(move || {
        let mut client = client;
        for (due, bytes) in answers {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if client.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
}

fn forward(from: TcpStream, mut to: TcpStream) {
    let mut target = clone(&to);
    read_all(from, |bytes| target.write_all(bytes).is_ok());
    // Only the sending half: answers to what was sent are still on their way.
    let _ = to.flush();
    let _ = to.shutdown(Shutdown::Write);
}

fn read_all(mut from: TcpStream, mut take: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if !take(&buffer[..len]) {
            return;
        }
    }
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("one more descriptor")
}
