//! A blocking RESP2 client, independent of the library, with which tests inspect servers from outside.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::PATIENCE;

/// An answer of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Self>),
}

/// One connection. A server that does not answer within [`PATIENCE`] fails the test.
#[derive(Debug)]
pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends one command and waits for its answer. An error reply counts as an answer.
    pub(crate) fn try_command(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.send(words)?;
        self.reply()
    }

    /// Sends one command.
    pub(crate) fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)
    }

    #[track_caller]
    pub(crate) fn command(&mut self, words: &[&[u8]]) -> Reply {
        self.try_command(words).expect("the server answers")
    }

    /// Runs a command that must not fail, written as a line. Its arguments contain no spaces.
    #[track_caller]
    pub(crate) fn run(&mut self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
        match self.command(&words) {
            Reply::Error(error) => panic!("`{line}` was refused: {error}"),
            reply => reply,
        }
    }

    /// Returns `true` if a `PING` is answered within fifty milliseconds. The connection must not be
    /// used afterwards.
    pub(crate) fn answers_soon(mut self) -> bool {
        let soon = Some(Duration::from_millis(50));
        self.stream.get_ref().set_read_timeout(soon).is_ok() && self.try_command(&[b"PING"]).is_ok()
    }

    #[track_caller]
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        match self.command(&[b"GET", key]) {
            Reply::Bulk(value) => Some(value),
            Reply::Nil => None,
            other => panic!("GET answered {other:?}"),
        }
    }

    /// Returns the remaining milliseconds; -1 if the key has no expiry, -2 if it does not exist.
    #[track_caller]
    pub(crate) fn pttl(&mut self, key: &[u8]) -> i64 {
        self.integer(&[b"PTTL", key])
    }

    #[track_caller]
    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.integer(&[b"EXISTS", key]) == 1
    }

    #[track_caller]
    pub(crate) fn del(&mut self, key: &[u8]) -> bool {
        self.integer(&[b"DEL", key]) == 1
    }

    /// Returns how many keys there are in the database.
    #[track_caller]
    pub(crate) fn keys(&mut self) -> i64 {
        self.integer(&[b"DBSIZE"])
    }

    /// Sets a key with an expiry, and replaces any earlier value.
    #[track_caller]
    pub(crate) fn set_px(&mut self, key: &[u8], value: &[u8], ttl: Duration) {
        let millis = ttl.as_millis().to_string();
        let reply = self.command(&[b"SET", key, value, b"PX", millis.as_bytes()]);
        assert_eq!(reply, Reply::Simple("OK".into()));
    }

    /// Makes `count` keys whose names begin with `prefix`.
    #[track_caller]
    pub(crate) fn fill(&mut self, prefix: &str, count: usize) {
        let names: Vec<String> = (0..count)
            .map(|number| format!("{prefix}{number}"))
            .collect();
        for names in names.chunks(1_000) {
            let pairs = names.iter().flat_map(|name| [name.as_bytes(), b"7"]);
            let words: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
            assert_eq!(self.command(&words), Reply::Simple("OK".into()));
        }
    }

    #[track_caller]
    pub(crate) fn integer(&mut self, words: &[&[u8]]) -> i64 {
        match self.command(words) {
            Reply::Integer(value) => value,
            other => panic!("an integer was expected, not {other:?}"),
        }
    }

    /// Returns one field of an `INFO` section.
    pub(crate) fn info(&mut self, section: &str, field: &str) -> Option<String> {
        let Ok(Reply::Bulk(text)) = self.try_command(&[b"INFO", section.as_bytes()]) else {
            return None;
        };
        let text = String::from_utf8_lossy(&text);
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(value.trim_end().to_owned())
    }

    /// Returns how often the server was asked to run `command` and did not refuse it.
    pub(crate) fn calls(&mut self, command: &str) -> u64 {
        let stat = self.info("commandstats", &format!("cmdstat_{command}"));
        let field = |name: &str| -> u64 {
            let words = stat.as_deref().unwrap_or_default().split(',');
            let mut numbers = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            numbers
                .next()
                .map_or(0, |number| number.parse().expect("a number"))
        };
        field("calls") - field("failed_calls")
    }

    /// Reads the next reply to a request, or the next line after `MONITOR`.
    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        Ok(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number(rest)?),
            "$" => match number(rest)? {
                -1 => Reply::Nil,
                len => Reply::Bulk(self.bulk(len)?),
            },
            "*" => match number(rest)? {
                -1 => Reply::Nil,
                len => Reply::Array((0..len).map(|_| self.reply()).collect::<io::Result<_>>()?),
            },
            _ => return Err(malformed(&line)),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(text) => Ok(text.to_owned()),
            None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(malformed(&line)),
        }
    }

    fn bulk(&mut self, len: i64) -> io::Result<Vec<u8>> {
        let len = usize::try_from(len).map_err(|_| malformed("a negative length"))?;
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| malformed(text))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no RESP2: {what:?}"))
}
