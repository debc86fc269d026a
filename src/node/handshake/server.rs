//! The facts that a server reports about itself in the handshake.
//!
//! # Not here
//!
//! `Trust` and the engine decide whether a node restarted, and whether two nodes are the same server.

use alloc::string::String;
use core::time::Duration;

use crate::error::{ServerError, Unusable};
use crate::node::request::{Dialect, Step};
use crate::resp::Value;

/// What to do after an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// Wait for the other answers.
    Wait,
    /// Repeat the questions in RESP2, then continue as after [`Next::Survey`].
    Fallback,
    /// The server accepts the connection: send the unconfirmed releases, then the remaining questions.
    Survey,
    /// The node has joined again, after its handshake.
    Joined,
}

/// The facts that a server reports about itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Identity {
    /// The identifier that the server chooses at each start. `None` if `INFO` is forbidden.
    pub(crate) run_id: Option<String>,
    /// The `master_replid` of the server, which identifies its replication history.
    pub(crate) replid: Option<String>,
    /// How long the server has run, by its own clock.
    pub(crate) uptime: Option<Duration>,
    /// Whether the server's policy may evict keys with an expiry, such as locks.
    pub(crate) evicts_locks: bool,
    /// The percentage of `maxmemory` in use, if `maxmemory` is set.
    pub(crate) memory_percent: Option<u8>,
    /// Whether every write reaches the disk before the server answers it. `None` if the server does not report these
    /// settings.
    writes_through: Option<bool>,
    /// Whether the server has no replica, is not a replica, and never was one.
    is_alone: bool,
    /// The product and version that the server reports, such as `valkey 9.1.2`.
    pub(crate) product: Option<String>,
    /// The shortest release command that this version of the server supports.
    pub(in crate::node) native_release: Option<Dialect>,
}

impl Identity {
    /// Returns whether the server keeps all its data across a restart, or `None` if the server has not reported this.
    pub(in crate::node) fn is_durable(&self) -> Option<bool> {
        Some(self.writes_through? && self.is_alone)
    }
}

/// The answers of a server on this connection, during the handshake and after it.
#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) identity: Identity,
    /// The number of unanswered questions.
    pub(in crate::node) open: usize,
    /// Whether the last questions of the handshake have been sent.
    pub(in crate::node) surveyed: bool,
    /// Whether the node has joined its group.
    pub(in crate::node) joined: bool,
}

impl Server {
    /// Returns `true` if all questions were sent and answered.
    pub(crate) fn is_done(&self) -> bool {
        self.surveyed && self.open == 0
    }

    /// Handles an answer and returns what to do next.
    ///
    /// # Errors
    ///
    /// Returns the reason why the server cannot be used.
    pub(crate) fn answer(&mut self, step: Step, value: Value<'_>) -> Result<Next, Unusable> {
        self.open = self.open.saturating_sub(1);
        match step {
            Step::Hello => return self.hello(value),
            Step::Auth => error_in(value).map_or(Ok(()), |error| Err(auth_refused(error)))?,
            Step::Select => error_in(value).map_or(Ok(()), |error| Err(select_refused(error)))?,
            Step::Server => info(value)?.map_or(Ok(()), |info| self.server(info))?,
            Step::Replication => info(value)?.map_or(Ok(()), |info| self.replication(info))?,
            Step::Memory => {
                let info = info(value)?;
                self.identity.evicts_locks = info.is_some_and(evicts_locks);
                self.identity.memory_percent = info.and_then(memory_percent);
            }
            Step::Durability => self.identity.writes_through = writes_through(value),
            Step::Join => self.joined = true,
            Step::Load(_) => {} // See `abilities`.
            // A client name only helps the operator, so a server that refuses it can still be used.
            Step::SetName => {}
        }
        Ok(Next::Wait)
    }

    fn hello(&mut self, value: Value<'_>) -> Result<Next, Unusable> {
        if let Some(line) = value.as_error() {
            return hello_refused(line);
        }
        let map = value.as_pairs().ok_or(Unusable::NotRedis)?;
        let text = |key: &[u8]| map.get(key).and_then(|value| value.as_bytes());
        check_role(text(b"role"))?;
        check_mode(text(b"mode"))?;
        self.identity.product = product(text(b"server"), text(b"version"));
        let version = version(text(b"version").unwrap_or_default());
        self.identity.native_release = match text(b"server") == Some(b"valkey") {
            true if version >= (9, 0) => Some(Dialect::DelIfEq),
            false if version >= (8, 4) => Some(Dialect::DelEx),
            _ => None,
        };
        Ok(Next::Survey)
    }

    fn server(&mut self, info: &[u8]) -> Result<(), Unusable> {
        // Valkey 9 calls this field `server_mode`.
        let mode = field(info, b"redis_mode").or_else(|| field(info, b"server_mode"));
        check_mode(mode)?;
        self.identity.run_id = field(info, b"run_id").and_then(name);
        let uptime = field(info, b"uptime_in_seconds").and_then(number);
        self.identity.uptime = uptime.map(Duration::from_secs);
        Ok(())
    }

    fn replication(&mut self, info: &[u8]) -> Result<(), Unusable> {
        check_role(field(info, b"role"))?;
        self.identity.replid = field(info, b"master_replid").and_then(name);
        let none = |id: &[u8]| id.iter().all(|byte| *byte == b'0');
        self.identity.is_alone = field(info, b"connected_slaves") == Some(b"0")
            && field(info, b"master_replid2").is_some_and(none);
        Ok(())
    }
}

/// Returns `true` if this `INFO memory` says that the server may evict keys with an expiry.
fn evicts_locks(info: &[u8]) -> bool {
    let limited = field(info, b"maxmemory").is_some_and(|limit| limit != b"0");
    let keeps = field(info, b"maxmemory_policy").is_none_or(|policy| policy == b"noeviction");
    limited && !keeps
}

/// Reads from an `INFO memory` which percentage of `maxmemory` is in use, at most 255. Returns `None` if `maxmemory`
/// sets no limit.
fn memory_percent(info: &[u8]) -> Option<u8> {
    let number = |name: &[u8]| core::str::from_utf8(field(info, name)?).ok()?.parse().ok();
    let (used, most): (u64, u64) = (number(b"used_memory")?, number(b"maxmemory")?);
    let percent = used.saturating_mul(100).checked_div(most)?;
    Some(u8::try_from(percent).unwrap_or(u8::MAX))
}

/// Returns whether writes reach the disk immediately, according to this answer to `CONFIG GET *append*`. The answer is
/// a map, or a flat array of the same items. Returns `None` if the server refuses the command.
fn writes_through(value: Value<'_>) -> Option<bool> {
    let is = |key: &[u8], wanted: &[u8]| {
        let text = match value.as_pairs() {
            Some(pairs) => pairs.get(key)?.as_bytes(),
            None => {
                let mut items = value.as_items()?.iter();
                items.find(|item| item.as_bytes() == Some(key))?;
                items.next()?.as_bytes()
            }
        };
        Some(text == Some(wanted))
    };
    let through = is(b"appendonly", b"yes")? && is(b"appendfsync", b"always")?;
    Some(through && is(b"no-appendfsync-on-rewrite", b"no")?)
}

fn hello_refused(line: &[u8]) -> Result<Next, Unusable> {
    let error = ServerError::from_line(line);
    let says = |text: &[u8]| line.windows(text.len()).any(|part| part == text);
    match error.code() {
        "ERR" if says(b"max number of clients") => Err(Unusable::TooManyClients),
        // Proxies report an unknown `HELLO` with different errors, so several errors lead to the fallback.
        "NOPROTO" | "NOPERM" | "HELLO" => Ok(Next::Fallback),
        _ if error.is_plain() => Ok(Next::Fallback),
        _ => Err(refused(error)),
    }
}

pub(in crate::node) fn refused(error: ServerError) -> Unusable {
    match error.code() {
        "NOAUTH" => Unusable::NoCredentials,
        "WRONGPASS" => Unusable::WrongCredentials,
        "NOPERM" => Unusable::NoPermission,
        "DENIED" => Unusable::Protected,
        _ => Unusable::Refused(error),
    }
}

/// Returns the reason why the server refused `AUTH`. If the error has no code of its own, either the server has no
/// password, or an old server rejects the configured one. In both cases, the configured credentials are wrong.
fn auth_refused(error: ServerError) -> Unusable {
    match error.code() {
        "NOAUTH" | "NOPERM" | "DENIED" => refused(error),
        _ => Unusable::WrongCredentials,
    }
}

fn select_refused(error: ServerError) -> Unusable {
    match error.code() {
        "ERR" => Unusable::NoDatabase,
        "NOPERM" => Unusable::Permission { command: "select" },
        _ => refused(error),
    }
}

fn error_in(value: Value<'_>) -> Option<ServerError> {
    value.as_error().map(ServerError::from_line)
}

/// Returns the text in the answer to an `INFO` command. Returns `None` if `INFO` is forbidden or not available, because
/// the node is usable without these facts. If the server is busy with a script, the handshake fails and is retried
/// later, because an unidentified server could get two votes. A busy server cannot vote anyway.
fn info(value: Value<'_>) -> Result<Option<&[u8]>, Unusable> {
    match error_in(value).as_ref().map(ServerError::code) {
        Some("NOAUTH") => Err(Unusable::NoCredentials),
        Some("BUSY") => Err(Unusable::Refused(ServerError::from_line(b"BUSY"))),
        Some(_) | None => Ok(value.as_bytes()),
    }
}

/// Returns the value of `key` in an `INFO`, whose lines have the form `key:value`.
fn field<'a>(info: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    info.split(|byte| *byte == b'\n').find_map(|line| {
        let value = line.strip_prefix(key)?.strip_prefix(b":")?;
        Some(value.strip_suffix(b"\r").unwrap_or(value))
    })
}

fn check_role(role: Option<&[u8]>) -> Result<(), Unusable> {
    let right = role.is_none_or(|role| role == b"master");
    right.then_some(()).ok_or(Unusable::Replica)
}

fn check_mode(mode: Option<&[u8]>) -> Result<(), Unusable> {
    let right = mode.is_none_or(|mode| mode == b"standalone");
    right.then_some(()).ok_or(Unusable::Mode)
}

/// Returns `text` if it can be a server's identifier: alphanumeric and not too long.
fn name(text: &[u8]) -> Option<String> {
    let fits = (1..=64).contains(&text.len()) && text.iter().all(u8::is_ascii_alphanumeric);
    let text = fits.then(|| core::str::from_utf8(text).ok())??;
    Some(text.into())
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Returns the product and the version of a server, if both are printable.
fn product(server: Option<&[u8]>, version: Option<&[u8]>) -> Option<String> {
    const LONGEST: usize = 64;
    let text = [server?, b" ", version?].concat();
    let is_shown = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let fits = text.len() <= LONGEST && text.iter().all(is_shown);
    String::from_utf8(text).ok().filter(|_| fits)
}

/// Returns the first two numbers of a version such as `9.1.2`.
fn version(text: &[u8]) -> (u64, u64) {
    let parts = text.split(|byte| *byte == b'.');
    let mut numbers = parts.map(|part| number(part).unwrap_or_default());
    let mut next = || numbers.next().unwrap_or_default();
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Decoder, Limits};

    fn answer(handshake: &mut Server, step: Step, reply: &str) -> Result<Next, Unusable> {
        let mut decoder = Decoder::new(Limits::default());
        let frame = decoder.decode(reply.as_bytes()).expect("valid");
        handshake.answer(step, frame.expect("whole").value)
    }

    #[test]
    fn what_hello_says_decides() {
        let hello = |role: &str, mode: &str| {
            alloc::format!(
                "%5\r\n+server\r\n+valkey\r\n$7\r\nversion\r\n$5\r\n9.1.2\r\n+proto\r\n:3\r\n\
                 +mode\r\n+{mode}\r\n+role\r\n+{role}\r\n"
            )
        };
        let mut handshake = Server::default();
        let reply = hello("master", "standalone");
        let next = answer(&mut handshake, Step::Hello, &reply);
        assert_eq!(next, Ok(Next::Survey));
        assert_eq!(handshake.identity.native_release, Some(Dialect::DelIfEq));
        let product = handshake.identity.product.as_deref();
        assert_eq!(product, Some("valkey 9.1.2"));
        assert_eq!(super::product(Some(b"a\x1b[2J"), Some(b"1")), None);
        assert_eq!(super::product(Some(&[b'a'; 64]), Some(b"1")), None);
        for (role, mode, why) in [
            ("slave", "standalone", Unusable::Replica),
            ("master", "cluster", Unusable::Mode),
        ] {
            let said = answer(&mut Server::default(), Step::Hello, &hello(role, mode));
            assert_eq!(said, Err(why), "{role} {mode}");
        }
        let loading = Unusable::Refused(ServerError::from_line(b"LOADING"));
        for (line, verdict) in [
            (
                "-ERR unknown command `HELLO`, with args",
                Ok(Next::Fallback),
            ),
            ("-NOPROTO unsupported protocol version", Ok(Next::Fallback)),
            ("-ERR unsupported command `hello`", Ok(Next::Fallback)),
            ("-unsupported command `hello`", Ok(Next::Fallback)),
            ("-HELLO is disabled", Ok(Next::Fallback)),
            ("-LOADING Redis is loading", Err(loading)),
            ("-NOAUTH HELLO must be", Err(Unusable::NoCredentials)),
            ("-WRONGPASS invalid", Err(Unusable::WrongCredentials)),
            ("-DENIED Redis is running", Err(Unusable::Protected)),
            ("-ERR max number of clients", Err(Unusable::TooManyClients)),
            ("+OK", Err(Unusable::NotRedis)),
        ] {
            let reply = alloc::format!("{line}\r\n");
            let said = answer(&mut Server::default(), Step::Hello, &reply);
            assert_eq!(said, verdict, "{line}");
        }
    }

    #[test]
    fn info_is_read_and_a_forbidden_one_costs_only_what_it_would_tell() {
        let bulk = |text: &str| alloc::format!("${}\r\n{text}\r\n", text.len());
        let mut handshake = Server::default();
        let server = "# Server\r\nredis_mode:standalone\r\nrun_id:0a1b\r\nuptime:3\r\n";
        let told = answer(&mut handshake, Step::Server, &bulk(server));
        assert_eq!(told, Ok(Next::Wait));
        assert_eq!(handshake.identity.run_id.as_deref(), Some("0a1b"));
        let memory = bulk("maxmemory:100\r\nmaxmemory_policy:volatile-lru\r\n");
        let told = answer(&mut handshake, Step::Memory, &memory);
        assert_eq!(told, Ok(Next::Wait));
        assert!(handshake.identity.evicts_locks);
        assert_eq!(handshake.identity.memory_percent, None);
        for (used, most, percent) in [
            ("80", "100", Some(80)),
            ("1000", "1", Some(255)),
            ("80", "0", None),
            ("?", "100", None),
        ] {
            let memory = alloc::format!("used_memory:{used}\r\nmaxmemory:{most}\r\n");
            let told = answer(&mut handshake, Step::Memory, &bulk(&memory));
            assert_eq!(told, Ok(Next::Wait));
            assert_eq!(handshake.identity.memory_percent, percent);
        }
        for (step, text, why) in [
            (Step::Replication, "role:slave", Unusable::Replica),
            (Step::Server, "server_mode:cluster", Unusable::Mode),
        ] {
            let told = answer(&mut handshake, step, &bulk(&alloc::format!("{text}\r\n")));
            assert_eq!(told, Err(why), "{text}");
        }
        let mut blind = Server::default();
        let forbidden = "-NOPERM this user has no permissions to run the 'info' command\r\n";
        assert_eq!(answer(&mut blind, Step::Server, forbidden), Ok(Next::Wait));
        assert_eq!(blind.identity, Identity::default());
        let busy = "-BUSY Redis is busy running a script.\r\n";
        let refused = Unusable::Refused(ServerError::from_line(b"BUSY"));
        for step in [Step::Server, Step::Replication, Step::Memory] {
            assert_eq!(answer(&mut blind, step, busy), Err(refused));
        }
    }
}
