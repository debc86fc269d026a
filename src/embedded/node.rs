//! The handle to a node, which runs on its own thread.

use std::format;
use std::io;
use std::net::SocketAddr;
use std::string::String;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::vec::Vec;

use core::fmt;
use core::time::Duration;

use mio::{Poll, Waker};

use crate::clock;
use crate::seed;

use super::serve::{self, Server, Shared};
use super::store::{Memory, Store};

/// A lock node in this process, on a loopback port. An `EmbeddedNode` is **for development, tests and demos, and is not
/// a production server** (see the [module](super)).
///
/// A new node reports an uptime of a day, so it votes immediately. After a [`restart`](Self::restart), the node reports
/// its real uptime. A handle with a restart guard does not count its votes until the longest ttl of a lock has passed.
///
/// Dropping the value closes the connections of the node and ends its thread. All methods take `&self` and return when
/// their work is done, so a test can stop or stall the node while other threads use it.
///
/// ```
/// use shearline::embedded::{EmbeddedNode, Memory};
///
/// let node = EmbeddedNode::spawn()?;
/// assert!(node.url().starts_with("redis://127.0.0.1:"));
/// node.stop()?;                   // connects are refused
/// node.restart(Memory::Lost)?;    // the same port, another `run_id`, no keys
/// node.pause()?;                  // connects succeed, nothing is answered
/// node.resume()?;                 // what was sent meanwhile is executed
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct EmbeddedNode {
    address: SocketAddr,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// A time that is longer than the ttl of any lock in a test.
const A_DAY: Duration = Duration::from_secs(86_400);

impl EmbeddedNode {
    /// Starts a node on a free loopback port. An idle node costs a thread, an `epoll` and a socket.
    ///
    /// # Errors
    ///
    /// Returns an error if the system provides no socket, no thread or no random bytes.
    pub fn spawn() -> io::Result<Self> {
        Self::spawn_with(|_| ())
    }

    /// Returns the address where the node listens. The node keeps the port as long as it lives, even while it is
    /// stopped.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the node.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Stops the node as if its process were killed: connections break, and new connections are refused. The node keeps
    /// its keys for a later [`restart`](Self::restart). Stopping a stopped node does nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the system provides no socket that keeps the port.
    pub fn stop(&self) -> io::Result<()> {
        self.order(Server::stop)
    }

    /// Starts the node again on the same port, with another `run_id`. If the node is running, stops it first. A paused
    /// node continues.
    ///
    /// # Errors
    ///
    /// Returns an error if the system provides no socket or no random bytes.
    pub fn restart(&self, memory: Memory) -> io::Result<()> {
        let seed = u64::from_ne_bytes(seed::fresh()?);
        self.order(|server| server.restart(seed, memory))
    }

    /// Stalls the node, as SIGSTOP would: the system still accepts connections and buffers bytes, but the node executes
    /// and answers nothing. Keys still expire.
    ///
    /// # Errors
    ///
    /// Returns an error if the node's thread cannot be woken.
    pub fn pause(&self) -> io::Result<()> {
        self.set_paused(true)
    }

    /// Lets a stalled node continue. The node executes all commands that clients sent during the stall, even on
    /// connections that the clients have closed.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`pause`](Self::pause).
    pub fn resume(&self) -> io::Result<()> {
        self.set_paused(false)
    }

    /// Deletes `key` of the first database, as another client or an operator may do. Returns `false` if the key does
    /// not exist. This method works in every state of the node.
    ///
    /// ```
    /// use std::time::Duration;
    /// use shearline::Redlock;
    /// use shearline::embedded::EmbeddedNode;
    ///
    /// let node = EmbeddedNode::spawn()?;
    /// let redlock = Redlock::connect([node.url()])?;
    /// let guard = redlock.lock("report", Duration::from_secs(10))?;
    /// assert!(node.remove("report"));
    /// assert!(guard.unlock().is_err()); // The program under test can see a loss.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&self, key: impl AsRef<[u8]>) -> bool {
        let removed = self.shared.lock().store.remove(clock::now(), key.as_ref());
        // Wakes the thread, which sends the pushes. If the wake-up fails, the thread has ended, so no client is left.
        let _ = self.waker.wake();
        removed
    }

    fn set_paused(&self, paused: bool) -> io::Result<()> {
        self.order(|server| {
            server.paused = paused;
            Ok(())
        })
    }

    /// Changes the server with `order`, and wakes the thread, so that it sees the change.
    fn order(&self, order: impl FnOnce(&mut Server) -> io::Result<()>) -> io::Result<()> {
        order(&mut self.shared.lock())?;
        self.waker.wake()
    }
}

/// Methods that only tests use.
#[doc(hidden)]
impl EmbeddedNode {
    /// Starts a node whose store `prepare` has set up.
    ///
    /// ```
    /// use shearline::embedded::EmbeddedNode;
    /// use shearline::internals::Refused;
    ///
    /// let node = EmbeddedNode::spawn_with(|store| store.refuse("eval", Some(Refused::Forbidden)))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`spawn`](Self::spawn).
    pub fn spawn_with(prepare: impl FnOnce(&mut Store)) -> io::Result<Self> {
        let mut store = Store::new(u64::from_ne_bytes(seed::fresh()?), clock::now());
        store.set_up_before(A_DAY);
        prepare(&mut store);
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), serve::WAKER)?;
        let server = Server::new(store, poll.registry().try_clone()?)?;
        let address = server.address;
        let shared = Arc::new(Shared {
            turn: Mutex::default(),
            server: Mutex::new(server),
        });
        let served = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("shearline-embedded".into())
            .spawn(move || serve::run(&served, poll))?;
        Ok(Self {
            address,
            shared,
            waker,
            thread: Some(thread),
        })
    }

    /// Steps the node's wall clock forward, as an operator or a time daemon may, so that keys expire earlier. This
    /// method works in every state of the node.
    pub fn step_clock(&self, by: Duration) {
        self.shared.lock().store.step_clock(by);
    }

    /// Returns the text that `key` of the first database holds now. This method works in every state of the node.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let server = self.shared.lock();
        let text = server.store.get(clock::now(), key.as_ref());
        text.map(<[u8]>::to_vec)
    }
}

impl Drop for EmbeddedNode {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            // If the thread panicked, the panic was already reported.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for EmbeddedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedNode")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tracking::{register, tracker};
    use super::*;

    impl EmbeddedNode {
        /// Returns the current number of keys, in all databases.
        pub(crate) fn keys(&self) -> usize {
            self.shared.lock().store.keys(clock::now())
        }
    }

    /// Returns a client that has registered a key.
    fn waiter(node: &EmbeddedNode) -> std::net::TcpStream {
        let mut stream = tracker(node);
        register(&mut stream, ":-2\r\n");
        stream
    }

    #[test]
    fn nothing_is_left_of_clients_that_have_gone() {
        let node = EmbeddedNode::spawn().unwrap();
        let registered = || node.shared.lock().store.has_registrations();
        let stream = waiter(&node);
        assert!(registered());
        drop(stream);
        let patience = clock::now().saturating_add(Duration::from_secs(20));
        while registered() {
            assert!(clock::now() < patience, "still registered");
            thread::yield_now();
        }
        let _stream = waiter(&node);
        assert!(registered());
        node.stop().unwrap();
        assert!(!registered());
    }

    #[test]
    fn a_thread_that_has_more_to_do_lets_the_handle_come_first() {
        let node = EmbeddedNode::spawn().unwrap();
        let server = node.shared.lock();
        thread::scope(|scope| {
            scope.spawn(|| node.shared.lock().paused = true);
            while node.shared.turn.try_lock().is_ok() {
                thread::yield_now();
            }
            drop(server);
            assert!(node.shared.lock().paused);
        });
    }
}
