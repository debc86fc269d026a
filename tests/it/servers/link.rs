//! A link loses some packets, duplicates some and delays others. The packets are real, between two kernels' ends of TCP
//! connections, so that TCP reacts as it always does.
//!
//! A tun device hands every packet for [`THERE`] to a thread here, which swaps source and destination and hands it
//! back: what is sent to a port there arrives at the same port [`HERE`], as if it came from there, and the answers go
//! the same way. (The swap changes no checksum.) The same servers can also be reached at the loopback address, without
//! the link, where nothing is lost.
//!
//! The link works only in a separate network namespace of the test. The device ends with the namespace.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use super::Server;
use super::encrypted;
use super::permitted::credentials;
use super::ports::is_of_a_server;
use crate::namespaces::run;

const HERE: &str = "10.77.0.1";
const THERE: &str = "10.77.0.2";
const DEVICE: &str = "lossy";

/// The longest delay of a packet. Other packets overtake it meanwhile.
const DELAY_MAX: Duration = Duration::from_millis(40);

/// Room for the longest packet of the device.
const PACKET_BYTES: usize = 2048;

/// What happens to packets, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// The share that is lost on the way to a server.
    pub(crate) lost_there: u32,
    /// The share that is lost on the way back.
    pub(crate) lost_back: u32,
    /// The share that comes twice.
    pub(crate) doubled: u32,
    /// The share that comes late.
    pub(crate) delayed: u32,
}

impl Weather {
    /// Loses this share of the packets, in either direction.
    pub(crate) fn lost(of_a_hundred: u32) -> Self {
        Self {
            lost_there: of_a_hundred,
            lost_back: of_a_hundred,
            ..Self::default()
        }
    }
}

/// The link, until it is dropped. It is good at first.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    forwarder: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    weather: Mutex<Weather>,
    lost: AtomicU64,
    over: AtomicBool,
}

impl Shared {
    fn weather(&self) -> MutexGuard<'_, Weather> {
        let weather = self.weather.lock();
        weather.expect("no thread panics while it holds this")
    }
}

impl Link {
    /// Makes a link, whose choices follow from the seed.
    pub(crate) fn new(seed: u64) -> Self {
        let device = open_device();
        run(&format!("ip addr add {HERE}/24 dev {DEVICE}"));
        run(&format!("ip link set {DEVICE} up"));
        let shared = Arc::new(Shared::default());
        let mut forwarder = Forwarder {
            device,
            random: StdRng::seed_from_u64(seed),
            delayed: Vec::new(),
            shared: Arc::clone(&shared),
        };
        Self {
            shared,
            forwarder: Some(thread::spawn(move || forwarder.run())),
        }
    }

    pub(crate) fn set(&self, weather: Weather) {
        *self.shared.weather() = weather;
    }

    /// Returns how many packets were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Returns the URL of the server over the link. The server has to listen at every address.
    pub(crate) fn url(&self, server: &Server) -> String {
        let port = encrypted::port(server.port());
        encrypted::url(&credentials(), &format!("{THERE}:{port}"))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(forwarder) = self.forwarder.take() {
            // If the thread has panicked, the test has failed already.
            let _ = forwarder.join();
        }
    }
}

struct Forwarder {
    device: File,
    random: StdRng,
    delayed: Vec<(Instant, Vec<u8>)>,
    shared: Arc<Shared>,
}

impl Forwarder {
    fn run(&mut self) {
        let mut buffer = [0; PACKET_BYTES];
        while !self.shared.over.load(Ordering::Relaxed) {
            self.wait();
            loop {
                match self.device.read(&mut buffer) {
                    Ok(len) => self.take(&mut buffer[..len]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("the device: {error}"),
                }
            }
            self.deliver_delayed();
        }
    }

    /// Waits until a packet comes or is due, but not for long, because nothing else reports the
    /// end.
    fn wait(&self) {
        let due = self.delayed.iter().map(|(due, _)| *due).min();
        let now = Instant::now();
        let limit = due.map_or(DELAY_MAX, |due| due.saturating_duration_since(now));
        let limit = Timespec::try_from(limit).expect("a short time");
        let mut devices = [PollFd::new(&self.device, PollFlags::IN)];
        match poll(&mut devices, Some(&limit)) {
            // A signal interrupted the wait.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("it can be waited for: {error}"),
        }
    }

    fn take(&mut self, packet: &mut [u8]) {
        let Some(there) = swap(packet) else {
            return; // A packet of the kernel itself, to its neighbours.
        };
        let weather = *self.shared.weather();
        let mut happens = |of_a_hundred: u32| self.random.random_range(0..100) < of_a_hundred;
        let lost = match there {
            true => happens(weather.lost_there),
            false => happens(weather.lost_back),
        };
        if lost {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let times = 1 + usize::from(happens(weather.doubled));
        for _ in 0..times {
            if self.random.random_range(0..100) < weather.delayed {
                let late = DELAY_MAX.mul_f64(self.random.random());
                self.delayed
                    .push((Instant::now() + late, packet.to_owned()));
            } else {
                self.deliver(packet);
            }
        }
    }

    fn deliver_delayed(&mut self) {
        let now = Instant::now();
        let due = self.delayed.extract_if(.., |(due, _)| *due <= now);
        for (_, packet) in due.collect::<Vec<_>>() {
            self.deliver(&packet);
        }
    }

    fn deliver(&mut self, packet: &[u8]) {
        self.device.write_all(packet).expect("the device takes it");
    }
}

/// Turns a packet from here to there into one from there to here. Returns `true` if it goes to a
/// server, and `None` if it is not TCP.
fn swap(packet: &mut [u8]) -> Option<bool> {
    const TCP: u8 = 6;
    let header = usize::from(*packet.first()? & 0x0f) * 4;
    if packet[0] >> 4 != 4 || *packet.get(9)? != TCP {
        return None;
    }
    let port = packet.get(header + 2..header + 4)?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    let (source, destination) = packet[12..20].split_at_mut(4);
    source.swap_with_slice(destination);
    Some(is_of_a_server(port))
}

fn open_device() -> File {
    // `struct ifreq`: a name of 16 bytes, then the flags in a union of 24.
    const IFREQ_BYTES: usize = 40;
    const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
    const IFF_TUN_IFF_NO_PI: u16 = 0x1001;
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    let device = device.expect("there are tun devices");
    ioctl_fionbio(&device, true).expect("it need not be waited for");
    let mut request = [0_u8; IFREQ_BYTES];
    request[..DEVICE.len()].copy_from_slice(DEVICE.as_bytes());
    request[16..18].copy_from_slice(&IFF_TUN_IFF_NO_PI.to_ne_bytes());
    // SAFETY: That is the number of the request, which reads and writes a `struct ifreq`.
    let made = unsafe { ioctl(&device, Updater::<TUNSETIFF, _>::new(&mut request)) };
    made.expect("the right to make one");
    device
}
