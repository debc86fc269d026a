//! Shows the historic lock `SETNX key time-stamp` on one server, and why it needed `GETSET`.
//!
//! Before `SET key token NX PX ttl` (Redis 2.6.12, 2012), no command could set a key together with its expiry. So the
//! value was the wall-clock time at which the lock expired. A client that found a time in the past assumed that the
//! holder had died, and took over the lock. A client could take over the lock in two ways:
//!
//! ```text
//! naive:  GET says expired -> DEL -> SETNX       two clients that both saw "expired" both win:
//!                                                the second one's DEL deletes the first one's
//!                                                *new* lock
//! right:  GET says expired -> GETSET new stamp   atomic: only one client is given the old stamp
//!                                                back; a client that gets a live one has lost
//! ```
//!
//! The program runs the fatal sequence of events on a real server, once with each variant. The tests try every possible
//! sequence of events (`cargo test --example setnx_getset`).
//!
//! Do not use this lock. Even the correct variant trusts the wall clocks of all clients, and one server is a single
//! point of failure. A losing client's `GETSET` changes the winner's time stamp, so the value does not show who holds
//! the lock. This library implements the successor of this lock.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use shearline::NodeConfig;
use shearline::resp::{self, Inbox, Value};

mod nodes;

/// The way in which a client takes over an expired lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TakeOver {
    /// `DEL`, then `SETNX` again. Wrong.
    Delete,
    /// `GETSET`. Right.
    GetSet,
}

/// One attempt to take the lock: a state machine that returns a command and accepts its reply.
///
/// Like this library's engine, it does no I/O, so a test can put the steps of two clients into any order.
#[derive(Clone, Debug)]
struct Attempt {
    take_over: TakeOver,
    /// Wall-clock milliseconds.
    now: u64,
    /// The time when the lock will end, as written into the key.
    until: u64,
    next: Next,
}

/// The next command, or the result of the attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    SetNx,
    Get,
    Del,
    SetNxAgain,
    GetSet,
    Won,
    Lost,
}

impl Attempt {
    fn new(take_over: TakeOver, now: u64, until: u64) -> Self {
        Self {
            take_over,
            now,
            until,
            next: Next::SetNx,
        }
    }

    /// Returns the words of the next command, or `None` if the attempt has ended.
    fn command(&self, key: &str) -> Option<Vec<String>> {
        let until = self.until.to_string();
        let words = match self.next {
            Next::SetNx | Next::SetNxAgain => vec!["SETNX", key, &until],
            Next::Get => vec!["GET", key],
            Next::Del => vec!["DEL", key],
            Next::GetSet => vec!["GETSET", key, &until],
            Next::Won | Next::Lost => return None,
        };
        Some(words.into_iter().map(String::from).collect())
    }

    /// Continues with the reply to that command.
    fn reply(&mut self, reply: Value<'_>) {
        let said_one = reply.as_integer() == Some(1);
        self.next = match self.next {
            Next::SetNx | Next::SetNxAgain if said_one => Next::Won,
            Next::SetNx => Next::Get,
            Next::SetNxAgain => Next::Lost,
            Next::Get if !self.is_over(reply) => Next::Lost,
            Next::Get => match self.take_over {
                TakeOver::Delete => Next::Del,
                TakeOver::GetSet => Next::GetSet,
            },
            // Here is the gap: since GET, another client may have done all of these steps already.
            Next::Del => Next::SetNxAgain,
            // There is no gap here: the server returns the value that this command has replaced.
            Next::GetSet if self.is_over(reply) => Next::Won,
            Next::GetSet => Next::Lost,
            end @ (Next::Won | Next::Lost) => end,
        };
    }

    /// Returns `true` if the lock is free: the key has no value, or the time in the value has passed. A value that is
    /// not a number counts as a lock.
    fn is_over(&self, value: Value<'_>) -> bool {
        let until = value.as_str().and_then(|text| text.parse::<u64>().ok());
        value == Value::Null || until.is_some_and(|until| until < self.now)
    }
}

/// A blocking client of one server, made of a socket and this crate's protocol code.
struct Client {
    stream: TcpStream,
    inbox: Inbox,
}

impl Client {
    fn connect(url: &str) -> Result<Self, Box<dyn Error>> {
        let node: NodeConfig = url.parse()?;
        if node.label().starts_with("unix:") {
            return Err("this example speaks TCP only".into());
        }
        let stream = TcpStream::connect(&**node.label())?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(Self {
            stream,
            inbox: Inbox::default(),
        })
    }

    /// Sends one command and passes its reply to `then`. The reply borrows from the bytes that were read.
    fn ask(&mut self, words: &[String], then: impl FnOnce(Value<'_>)) -> io::Result<()> {
        let mut out = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        resp::command(&mut out, &words);
        self.stream.write_all(&out)?;
        let mut buffer = [0; 512];
        loop {
            let len = self.stream.read(&mut buffer)?;
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut piece = &buffer[..len];
            // A reply may arrive in pieces; the inbox keeps the pieces.
            if let Some(frame) = self.inbox.next(&mut piece).map_err(io::Error::other)? {
                if let Some(error) = frame.value.as_error() {
                    return Err(io::Error::other(error.escape_ascii().to_string()));
                }
                then(frame.value);
                return Ok(());
            }
        }
    }

    /// Takes one step of an attempt, and prints it.
    fn step(&mut self, name: &str, attempt: &mut Attempt, key: &str) -> io::Result<()> {
        let Some(words) = attempt.command(key) else {
            return Ok(());
        };
        self.ask(&words, |reply| {
            let said = match reply.as_bytes() {
                Some(text) => text.escape_ascii().to_string(),
                None => format!("{reply:?}"),
            };
            println!("    {name}: {:<34} -> {said}", words.join(" "));
            attempt.reply(reply);
        })
    }
}

/// Two clients, which both see that the lock has expired before one of them acts.
fn play(url: &str, take_over: TakeOver, now: u64) -> Result<[Next; 2], Box<dyn Error>> {
    let key = format!("setnx:{}", std::process::id());
    let mut clients = [Client::connect(url)?, Client::connect(url)?];
    let mut attempts = [1, 2].map(|second| Attempt::new(take_over, now, now + second * 1000));

    // The value of a holder that died ten seconds ago.
    let dead = ["SET".into(), key.clone(), (now - 10_000).to_string()];
    clients[0].ask(&dead, |_| ())?;

    // Both A and B read the value. Then A takes its other steps, and after that B.
    for who in [0, 1, 0, 1, 0, 0, 1, 1] {
        let name = ["A", "B"][who];
        clients[who].step(name, &mut attempts[who], &key)?;
    }
    clients[0].ask(&["DEL".into(), key], |_| ())?;
    Ok(attempts.map(|attempt| attempt.next))
}

#[expect(
    clippy::disallowed_methods,
    reason = "wall time is what this lock is made of, and one of its faults"
)]
fn wall_clock_millis() -> Result<u64, Box<dyn Error>> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let now = wall_clock_millis()?;
    for (take_over, title) in [
        (TakeOver::Delete, "DEL after a seen expiry"),
        (TakeOver::GetSet, "GETSET decides"),
    ] {
        println!("{title}:");
        let ends = play(&nodes.urls[0], take_over, now)?;
        let holders = ends.iter().filter(|end| **end == Next::Won).count();
        println!("  => {holders} of the two clients believe that they hold the lock\n");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Tries every order in which a server may see the commands of two or three clients.

    use super::*;
    use std::collections::BTreeMap;

    const KEY: &str = "lock";
    const NOW: u64 = 100_000;
    const DEAD: &str = "90000";
    const ALIVE: &str = "110000";

    /// A model of a server for the four commands, which runs them one at a time.
    #[derive(Clone, Debug, Default)]
    struct Server(BTreeMap<String, String>);

    impl Server {
        fn holding(value: Option<&str>) -> Self {
            Self(
                value
                    .map(|value| (KEY.into(), value.into()))
                    .into_iter()
                    .collect(),
            )
        }

        /// Runs a command. Returns the encoded reply.
        fn run(&mut self, words: &[&str]) -> String {
            let integer = |is_so: bool| format!(":{}\r\n", u8::from(is_so));
            let bulk = |old: Option<&String>| match old {
                Some(old) => format!("${}\r\n{old}\r\n", old.len()),
                None => "$-1\r\n".to_owned(),
            };
            match *words {
                ["SETNX", key, value] => {
                    let is_free = !self.0.contains_key(key);
                    if is_free {
                        self.0.insert(key.into(), value.into());
                    }
                    integer(is_free)
                }
                ["GET", key] => bulk(self.0.get(key)),
                ["DEL", key] => integer(self.0.remove(key).is_some()),
                ["GETSET", key, value] => bulk(self.0.insert(key.into(), value.into()).as_ref()),
                _ => panic!("{words:?} is no command of this lock"),
            }
        }
    }

    /// Takes one step of `attempt`, and decodes the reply from bytes. Returns `false` if the attempt has ended.
    fn step(server: &mut Server, attempt: &mut Attempt) -> bool {
        let Some(words) = attempt.command(KEY) else {
            return false;
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let bytes = server.run(&words);
        let mut inbox = Inbox::default();
        let mut piece = bytes.as_bytes();
        let frame = inbox.next(&mut piece).expect("valid").expect("whole");
        attempt.reply(frame.value);
        true
    }

    /// Counts the winners of each order of events. Returns the smallest and the largest number of winners,
    /// and the number of orders.
    fn winners(server: &Server, attempts: &[Attempt]) -> (usize, usize, usize) {
        let mut sum = (usize::MAX, 0, 0);
        for who in 0..attempts.len() {
            let (mut server, mut attempts) = (server.clone(), attempts.to_vec());
            if step(&mut server, &mut attempts[who]) {
                let (least, most, orders) = winners(&server, &attempts);
                sum = (sum.0.min(least), sum.1.max(most), sum.2 + orders);
            }
        }
        if sum.2 == 0 {
            let won = attempts.iter().filter(|end| end.next == Next::Won).count();
            return (won, won, 1);
        }
        sum
    }

    fn check(clients: u64, take_over: TakeOver, value: Option<&str>, expected: (usize, usize)) {
        let attempts: Vec<_> = (1..=clients)
            .map(|client| Attempt::new(take_over, NOW, NOW + client * 1000))
            .collect();
        let (least, most, orders) = winners(&Server::holding(value), &attempts);
        assert_eq!(
            (least, most),
            expected,
            "{clients} clients, {take_over:?}, {value:?}"
        );
        assert!(orders > 1);
    }

    #[test]
    fn deleting_an_expired_lock_gives_it_to_two_clients() {
        check(2, TakeOver::Delete, Some(DEAD), (1, 2));
        check(3, TakeOver::Delete, Some(DEAD), (1, 3));
    }

    #[test]
    fn getset_gives_the_lock_to_exactly_one_client_in_every_order() {
        for clients in [2, 3] {
            check(clients, TakeOver::GetSet, Some(DEAD), (1, 1));
        }
    }

    #[test]
    fn a_free_lock_goes_to_one_client_and_a_live_one_to_none() {
        for take_over in [TakeOver::Delete, TakeOver::GetSet] {
            check(3, take_over, None, (1, 1));
            check(3, take_over, Some(ALIVE), (0, 0));
        }
    }

    /// The shortest fatal sequence of events, step by step.
    #[test]
    fn the_second_delete_deletes_the_new_lock() {
        let mut server = Server::holding(Some(DEAD));
        let mut a = Attempt::new(TakeOver::Delete, NOW, NOW + 1000);
        let mut b = Attempt::new(TakeOver::Delete, NOW, NOW + 2000);
        for attempt in [&mut a, &mut b] {
            step(&mut server, attempt);
            step(&mut server, attempt);
            assert_eq!(attempt.next, Next::Del, "both have seen the old stamp");
        }
        while step(&mut server, &mut a) {}
        assert_eq!(a.next, Next::Won);
        assert_eq!(server.0[KEY], "101000");
        while step(&mut server, &mut b) {}
        assert_eq!(
            b.next,
            Next::Won,
            "A has not released, and B holds the lock too"
        );
        assert_eq!(server.0[KEY], "102000");
    }

    /// If the holder releases the lock between GET and GETSET, the key is gone, and the lock is ours.
    #[test]
    fn getset_takes_a_lock_that_was_released_meanwhile() {
        let mut server = Server::holding(Some(DEAD));
        let mut attempt = Attempt::new(TakeOver::GetSet, NOW, NOW + 1000);
        step(&mut server, &mut attempt);
        step(&mut server, &mut attempt);
        server.run(&["DEL", KEY]);
        step(&mut server, &mut attempt);
        assert_eq!(attempt.next, Next::Won);
    }
}
