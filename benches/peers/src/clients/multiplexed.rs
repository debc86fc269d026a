//! A client as an experienced user of `redis` would write it: Redlock on multiplexed asynchronous connections.
//!
//! The client asks all nodes at once and continues when a majority has answered. A separate task reads the other
//! answers. The client has no retries, no restart guard and no repair.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisError, Script, cmd};
use tokio::runtime::Runtime;

use crate::Failure;
use crate::cycle::{Futures, TTL};

/// Connections to all nodes, and the script.
#[derive(Clone, Debug)]
pub struct Multiplexed {
    nodes: Arc<[MultiplexedConnection]>,
    release: Arc<Script>,
    name: Arc<str>,
}

/// The token of a lock.
#[derive(Clone, Copy, Debug)]
pub struct Token([u8; 20]);

impl Multiplexed {
    /// Connects to all nodes; the lock has this name.
    ///
    /// # Errors
    ///
    /// A server does not answer.
    pub fn connect(runtime: &Runtime, urls: &[String], name: &str) -> Result<Self, Failure> {
        let mut nodes = Vec::new();
        for url in urls {
            let client = Client::open(url.as_str())?;
            nodes.push(runtime.block_on(client.get_multiplexed_async_connection())?);
        }
        Ok(Self {
            nodes: nodes.into(),
            release: Arc::new(Script::new(
                "if redis.call('get', KEYS[1]) == ARGV[1] then \
                 return redis.call('del', KEYS[1]) else return 0 end",
            )),
            name: name.into(),
        })
    }

    /// Asks all nodes. Returns when a majority has said yes.
    async fn majority<A>(&self, ask: impl Fn(MultiplexedConnection) -> A) -> Result<(), Failure>
    where
        A: Future<Output = Result<bool, RedisError>> + Send + 'static,
    {
        let mut answers: FuturesUnordered<_> = self.nodes.iter().cloned().map(ask).collect();
        let mut granted = 0;
        while let Some(answer) = answers.next().await {
            granted += usize::from(answer.unwrap_or(false));
            if self.nodes.len() / 2 < granted {
                if !answers.is_empty() {
                    // If the stream were dropped, a command could stay unsent.
                    tokio::spawn(answers.for_each(|_| async {}));
                }
                return Ok(());
            }
        }
        Err("no majority said yes".into())
    }
}

impl Futures for Multiplexed {
    type Lock = Token;

    fn named(&self, name: &str) -> Self {
        Self {
            name: name.into(),
            ..self.clone()
        }
    }

    async fn acquire(&self) -> Result<Token, Failure> {
        let begun = crate::cycle::now();
        let token = Token(rand::random());
        let ask = |mut node: MultiplexedConnection| {
            let name = Arc::clone(&self.name);
            async move {
                let mut set = cmd("SET");
                set.arg(&*name).arg(&token.0).arg("NX").arg("PX");
                let answer: Option<String> = set
                    .arg(TTL.as_millis() as u64)
                    .query_async(&mut node)
                    .await?;
                Ok(answer.is_some())
            }
        };
        let asked = self.majority(ask).await;
        let validity = (TTL - TTL / 100).checked_sub(begun.elapsed());
        match (asked, validity) {
            (Ok(()), Some(_)) => Ok(token),
            (asked, _) => {
                self.release(token).await?;
                asked?;
                Err("it took too long".into())
            }
        }
    }

    async fn release(&self, token: Token) -> Result<(), Failure> {
        let ask = |mut node: MultiplexedConnection| {
            let (release, name) = (Arc::clone(&self.release), Arc::clone(&self.name));
            async move {
                let mut call = release.key(&*name);
                call.arg(&token.0).invoke_async(&mut node).await
            }
        };
        self.majority(ask).await
    }
}
