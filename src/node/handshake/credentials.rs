//! The commands of the handshake that depend on the user, the password, the client name and the database.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::config::{Config, Credentials as Given, NodeConfig};
use crate::error::{ServerError, said};
use crate::node::request::{Purpose, Step};
use crate::resp;

/// The configured parts of the handshake: user, password, client name, database.
#[derive(Debug)]
pub(in crate::node) struct Credentials {
    node: NodeConfig,
    client_name: Option<String>,
    /// Whether a provider supplies the credentials for each connection.
    is_given: bool,
    given: Option<Given>,
}

impl Credentials {
    pub(super) fn new(config: &Config, node: &NodeConfig) -> Self {
        Self {
            node: node.clone(),
            client_name: config.client_name().map(String::from),
            is_given: config.provider(node).is_some(),
            given: None,
        }
    }

    /// Prepares for a connection that is being opened. Returns `true` if a provider must supply the credentials.
    pub(super) fn ask_again(&mut self) -> bool {
        self.given = None;
        self.is_given
    }

    #[cfg(feature = "std")]
    pub(super) fn give(&mut self, given: Given) {
        self.given = Some(given);
    }

    /// Returns `true` if a provider has not supplied the credentials yet.
    pub(super) fn are_missing(&self) -> bool {
        self.is_given && self.given.is_none()
    }

    /// Returns the text of a server's error, unless the error concerns a login or repeats our user or password.
    #[cold]
    pub(super) fn words_of(
        &self,
        purpose: Purpose,
        line: &[u8],
    ) -> Option<(Option<ServerError>, Arc<str>)> {
        if let Purpose::Handshake(Step::Hello | Step::Auth) = purpose {
            return None;
        }
        let (user, password) = self.login().unwrap_or_default();
        let mut secrets = [user.unwrap_or_default(), password].into_iter();
        let is_in = |secret: &str| {
            !secret.is_empty()
                && line
                    .windows(secret.len())
                    .any(|part| part == secret.as_bytes())
        };
        let error = ServerError::from_line(line);
        let words = said(line, error.code()).filter(|_| !secrets.any(is_in))?;
        Some((Some(error), words))
    }

    /// Returns the user and the password.
    fn login(&self) -> Option<(Option<&str>, &str)> {
        let user = self.node.user();
        match &self.given {
            Some(given) => {
                let theirs = given.user.as_deref().filter(|user| !user.is_empty());
                Some((user.or(theirs), &given.password))
            }
            None => self.node.password().map(|password| (user, password)),
        }
    }

    /// Writes the command of `step`. Returns `false` if the step needs no command.
    pub(in crate::node) fn ask(&self, out: &mut Vec<u8>, step: Step) -> bool {
        let database = resp::Decimal::new(u64::from(self.node.database()));
        let words: &[&[u8]] = match step {
            Step::Hello => return self.hello(out),
            Step::Auth => match self.login() {
                None => return false,
                Some((None, password)) => &[b"AUTH", password.as_bytes()],
                Some((Some(user), password)) => &[b"AUTH", user.as_bytes(), password.as_bytes()],
            },
            Step::SetName => match &self.client_name {
                None => return false,
                Some(name) => &[b"CLIENT", b"SETNAME", name.as_bytes()],
            },
            Step::Select if self.node.database() == 0 => return false,
            Step::Select => &[b"SELECT", database.as_bytes()],
            Step::Server => &[b"INFO", b"server"],
            Step::Replication => &[b"INFO", b"replication"],
            Step::Memory => &[b"INFO", b"memory"],
            Step::Load(taught) => &[b"SCRIPT", b"LOAD", taught.script().text.as_bytes()],
            Step::Durability => &[b"CONFIG", b"GET", b"*append*"],
            // The `JOIN` command differs between connections, so `Node` writes it.
            Step::Join => return false,
        };
        resp::command(out, words);
        true
    }

    fn hello(&self, out: &mut Vec<u8>) -> bool {
        let mut words: Vec<&[u8]> = alloc::vec![b"HELLO", b"3"];
        if let Some((user, password)) = self.login() {
            let user = user.unwrap_or("default");
            words.extend([b"AUTH", user.as_bytes(), password.as_bytes()]);
        }
        if let Some(name) = &self.client_name {
            words.extend([&b"SETNAME"[..], name.as_bytes()]);
        }
        resp::command(out, &words);
        true
    }
}
