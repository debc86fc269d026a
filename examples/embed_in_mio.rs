//! Takes locks inside an existing event loop.
//!
//! This program has its own `mio` loop: jobs arrive on a UDP socket, and each job is done under a lock. The driver is
//! one more source of events for that loop: a descriptor to wait on, and a deadline at which to wake. The driver needs
//! no thread and no runtime, and works with epoll, kqueue or any other reactor.
//!
//! ```text
//!   host's mio::Poll --- UDP socket           a job's name arrives -> driver.acquire
//!                    `-- driver's descriptor  readable -> driver.turn(0), then its events
//!   sleep at most driver.until_deadline()
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use shearline::engine::{Event, RoundId};
use shearline::{Driver, LockOptions, Redlock};

mod nodes;

const JOBS: Token = Token(0);
const LOCKS: Token = Token(1);
/// The number of jobs after which the program ends.
const JOBS_EXPECTED: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let mut driver = Redlock::builder().nodes(&nodes.urls).build_driver()?;

    let mut poll = Poll::new()?;
    let mut socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    poll.registry()
        .register(&mut socket, JOBS, Interest::READABLE)?;
    // Registers the driver's descriptor, which becomes readable when a turn of the driver would find work.
    let descriptor = driver.as_raw_fd();
    poll.registry()
        .register(&mut SourceFd(&descriptor), LOCKS, Interest::READABLE)?;

    send_some_jobs(socket.local_addr()?);
    let mut host = Host::default();
    let mut events = Events::with_capacity(64);
    while host.done < JOBS_EXPECTED {
        // Deadlines do not make the descriptor readable, so this program never sleeps past the next deadline.
        match poll.poll(&mut events, driver.until_deadline()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            polled => polled?,
        }
        if events.iter().any(|event| event.token() == JOBS) {
            host.take_jobs(&socket, &mut driver)?;
        }
        // The driver takes a turn at every wake-up. A turn that has nothing to do costs little. A turn also sends the
        // requests of `take_jobs`.
        driver.turn(Some(Duration::ZERO))?;
        while let Some(event) = driver.poll_event() {
            host.handle(event, &mut driver)?;
        }
        driver.flush();
    }
    println!("{JOBS_EXPECTED} jobs done on one thread, in the loop of the host");
    Ok(())
}

#[derive(Default)]
struct Host {
    /// The jobs that wait for their locks, keyed by the request for the lock.
    waiting: BTreeMap<usize, String>,
    done: usize,
}

impl Host {
    /// Reads every job that has arrived, and requests its lock.
    fn take_jobs(&mut self, socket: &UdpSocket, driver: &mut Driver) -> Result<(), Box<dyn Error>> {
        let options = LockOptions::new(Duration::from_secs(10)).wait(Duration::from_secs(1));
        let mut buffer = [0; 64];
        loop {
            match socket.recv(&mut buffer) {
                Ok(len) => {
                    let job = String::from_utf8_lossy(&buffer[..len]).into_owned();
                    let round = driver.acquire(job.as_bytes(), &options)?;
                    println!("{job}: asked for");
                    self.waiting.insert(round.index(), job);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn handle(&mut self, event: Event, driver: &mut Driver) -> Result<(), Box<dyn Error>> {
        match event {
            Event::Acquired { round, result } => {
                let job = self.job_of(round);
                match result {
                    Ok(lock) => {
                        println!("{job}: ours, and done");
                        driver.release(lock)?;
                    }
                    Err(error) => println!("{job}: not done, {error}"),
                }
                self.done += 1;
            }
            Event::Released { result, .. } => match result {
                Ok(released) => println!("  released on {} nodes", released.deleted),
                Err(error) => println!("  {error}"),
            },
            // The lock expired while its job was running. The jobs of this example take no time, so no lock expires
            // here.
            Event::Expired { lock } => println!("  {lock:?} is lost: its job must stop"),
            // This program extends no lock, so it ignores this event and any event that a later version adds.
            Event::Extended { .. } | _ => {}
        }
        Ok(())
    }

    fn job_of(&mut self, round: RoundId) -> String {
        self.waiting.remove(&round.index()).unwrap_or_default()
    }
}

/// Acts as a client that sends three jobs, and a little later two jobs with names that were used before.
fn send_some_jobs(to: SocketAddr) {
    std::thread::spawn(move || -> io::Result<()> {
        let socket = std::net::UdpSocket::bind(("127.0.0.1", 0))?;
        for job in ["report:1", "report:2", "report:3"] {
            socket.send_to(job.as_bytes(), to)?;
        }
        std::thread::sleep(Duration::from_millis(50));
        for job in ["report:1", "report:2"] {
            socket.send_to(job.as_bytes(), to)?;
        }
        Ok(())
    });
}
