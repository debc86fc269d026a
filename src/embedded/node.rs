//! The handle to a node, which runs on a thread of its own.

use std::format;
use std::io;
use std::net::SocketAddr;
use std::string::String;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::vec::Vec;

use core::fmt;
use core::time::Duration;

use mio::Waker;
use rand::TryRng;
use rand::rngs::SysRng;

use crate::clock;

use super::flavour::{Flavour, Refused};
use super::serve::{Order, Server, lock};
use super::store::{Memory, Store};

/// A lock node in this process, on a loopback port. **For development, tests and demos; not a production server** (see
/// the [module](super)).
///
/// It says that it has been up for a day, so that it votes at once. After a [`restart`](Self::restart) it says the truth,
/// and a handle with a restart guard leaves it out for as long as the longest lock may last.
///
/// It lives as long as this value: dropping it closes its connections and ends its thread. All methods take `&self` and
/// return when their work is done, so a test may share the node among threads, and stop or stall it while they use it.
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
    password: Option<String>,
    store: Arc<Mutex<Store>>,
    orders: Option<Sender<(Order, Sender<io::Result<()>>)>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// Longer than any lock of a test.
const A_DAY: Duration = Duration::from_secs(86_400);

/// Options of a new node.
#[derive(Clone, Default)]
pub struct Options {
    password: Option<String>,
    flavour: Flavour,
    refused: Vec<(String, Refused)>,
    fresh: bool,
}

impl Options {
    /// Returns options with no password and the flavour of Redis.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires this password for the user `default`.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Makes the node say that it has just been started, like a server that may have forgotten locks. Without this it
    /// says that it has been up for a day.
    #[must_use]
    pub const fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Refuses `command`: see [`EmbeddedNode::refuse`].
    ///
    /// ```
    /// use shearline::embedded::EmbeddedNode;
    /// use shearline::internals::{Flavour, Options, Refused};
    ///
    /// let options = Options::new().flavour(Flavour::Valkey81);
    /// let refuse = |options: Options, command| options.refuse(command, Refused::Forbidden);
    /// let node = EmbeddedNode::spawn_with(&["eval", "evalsha", "script"].into_iter().fold(options, refuse))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn refuse(mut self, command: impl Into<String>, how: Refused) -> Self {
        self.refused.push((command.into(), how));
        self
    }

    /// Makes the node behave as this server.
    #[must_use]
    pub const fn flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = flavour;
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("flavour", &self.flavour)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl EmbeddedNode {
    /// Starts a node on a free loopback port. While it is not used, it costs a thread, an `epoll`
    /// and a socket.
    ///
    /// # Errors
    ///
    /// When the system gives no socket, no thread or no randomness.
    pub fn spawn() -> io::Result<Self> {
        Self::spawn_with(&Options::new())
    }

    /// Returns the address where the node listens. It keeps the port as long as it lives, stopped or not.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its URL, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.password {
            None => format!("redis://{}", self.address),
            Some(password) => {
                format!("redis://:{}@{}", percent_encoded(password), self.address)
            }
        }
    }

    /// Stops the node as a kill would: connections break, new ones are refused. Keys are kept for a later
    /// [`restart`](Self::restart) with them. A stopped node can be stopped again.
    ///
    /// # Errors
    ///
    /// Only if the node's thread has ended, because the system no longer let it wait.
    pub fn stop(&self) -> io::Result<()> {
        self.order(Order::Stop)
    }

    /// Starts the node again on the same port, with another `run_id`; stops it first if it runs. A paused node
    /// continues.
    ///
    /// # Errors
    ///
    /// When the system gives no socket or no randomness.
    pub fn restart(&self, memory: Memory) -> io::Result<()> {
        self.order(Order::Restart(seed()?, memory))
    }

    /// Stalls the node, as SIGSTOP would: the system still accepts connections and buffers bytes for it, but nothing is
    /// executed or answered. Keys still expire.
    ///
    /// # Errors
    ///
    /// Like [`stop`](Self::stop).
    pub fn pause(&self) -> io::Result<()> {
        self.order(Order::Pause)
    }

    /// Lets a stalled node continue. It executes everything that was sent to it meanwhile, even on connections that
    /// their clients have closed.
    ///
    /// # Errors
    ///
    /// Like [`stop`](Self::stop).
    pub fn resume(&self) -> io::Result<()> {
        self.order(Order::Resume)
    }

    /// Deletes `key` of the first database, as another client or an operator may. Returns `false` if there is none. Works
    /// in every state of the node.
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
        let removed = lock(&self.store).remove(clock::now(), key.as_ref());
        // The thread sends the pushes. If it cannot be woken, it has ended.
        let _ = self.waker.wake();
        removed
    }

    fn order(&self, order: Order) -> io::Result<()> {
        let ended = || io::Error::other("the thread of the embedded node has ended");
        let (done, result) = mpsc::channel();
        let orders = self.orders.as_ref().ok_or_else(ended)?;
        orders.send((order, done)).map_err(|_| ended())?;
        self.waker.wake()?;
        result.recv().map_err(|_| ended())?
    }
}

/// Methods that only tests use.
#[doc(hidden)]
impl EmbeddedNode {
    /// Starts a node with options.
    ///
    /// # Errors
    ///
    /// Like [`spawn`](Self::spawn).
    pub fn spawn_with(options: &Options) -> io::Result<Self> {
        let mut store = Store::new(seed()?, clock::now());
        store.set_flavour(options.flavour);
        if !options.fresh {
            store.set_up_before(A_DAY);
        }
        for (command, how) in &options.refused {
            store.refuse(command, Some(*how));
        }
        store.set_password(options.password.as_deref().map(str::as_bytes));
        let store = Arc::new(Mutex::new(store));
        let (orders, received) = mpsc::channel();
        let server = Server::new(Arc::clone(&store), received)?;
        let address = server.address().into();
        let waker = server.waker()?;
        let thread = thread::Builder::new()
            .name("shearline-embedded".into())
            .spawn(|| server.run())?;
        Ok(Self {
            address,
            password: options.password.clone(),
            store,
            orders: Some(orders),
            waker,
            thread: Some(thread),
        })
    }

    /// Steps the node's wall clock forward, as an operator or a time daemon may, so that keys end earlier. Works in
    /// every state of the node.
    pub fn step_clock(&self, by: Duration) {
        lock(&self.store).step_clock(by);
    }

    /// Refuses `command` from now on. It is a name as in ACL rules: `eval`, `script|load`, or `script` for all of its
    /// subcommands. `None` permits it again. Works in every state of the node.
    pub fn refuse(&self, command: &str, how: Option<Refused>) {
        lock(&self.store).refuse(command, how);
    }

    /// Returns the text that `key` of the first database holds now. Works in every state of the
    /// node.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let store = lock(&self.store);
        let text = store.get(clock::now(), key.as_ref());
        text.map(<[u8]>::to_vec)
    }

    /// Returns how many keys there are now, in all databases.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.store).len(clock::now())
    }

    /// Returns `true` if there is no key now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for EmbeddedNode {
    fn drop(&mut self) {
        // The thread ends when the last sender of orders is dropped.
        self.orders = None;
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            // A panic of the thread was reported when it happened.
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

fn seed() -> io::Result<u64> {
    SysRng.try_next_u64().map_err(io::Error::other)
}

/// Returns `text` with everything but letters and digits as `%xx`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::super::tests::tracking::{register, tracker};
    use super::*;

    /// Returns a client that has registered a key.
    fn waiter(node: &EmbeddedNode) -> std::net::TcpStream {
        let mut stream = tracker(node);
        register(&mut stream, ":-2\r\n");
        stream
    }

    #[test]
    fn nothing_is_left_of_clients_that_have_gone() {
        let node = EmbeddedNode::spawn().unwrap();
        let registered = || lock(&node.store).has_registrations();
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
}
