//! The nodes of all contests, and the clients on them.

use std::net::SocketAddr;
use std::time::Duration;

use shearline::Redlock;
use shearline::embedded::EmbeddedNode;
use shearline_peers::Failure;
use shearline_peers::clients::crowd::{Joined, Tasks, Threads, crowd, names};
use shearline_peers::clients::multiplexed::Multiplexed;
use shearline_peers::clients::rslock::Rslock;
use shearline_peers::clients::shearline::{Local, Shared, patient};
use shearline_peers::clients::{Alone, Awaiting, runtime};
use shearline_peers::cycle::{Caller, Client, Futures, Log, Until, now};
use shearline_peers::encryption::Encryption;
use shearline_peers::floor::batch::{Batch, Outstanding};
use shearline_peers::floor::encrypted::Encrypted;
use shearline_peers::floor::solo::{Manner, Solo};
use shearline_peers::floor::threads::Post;
use shearline_peers::servers::{self, Server};

use crate::cases::{Case, Nodes};
use crate::who::Who;

/// All nodes. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct World {
    servers: Vec<Server>,
    embedded: Vec<EmbeddedNode>,
    _encryption: Encryption,
}

impl World {
    /// Starts as many of each kind as these cases need.
    pub(crate) fn start(cases: &[&Case]) -> Result<Self, Failure> {
        let most = |count: fn(Nodes) -> usize| {
            let counts = cases.iter().map(|case| count(case.nodes));
            counts.max().unwrap_or(0)
        };
        let embedded = most(|nodes| match nodes {
            Nodes::Servers(_) => 0,
            Nodes::Embedded(count) => count,
        });
        let servers = most(|nodes| match nodes {
            Nodes::Servers(count) => count,
            Nodes::Embedded(_) => 0,
        });
        let encryption = Encryption::new()?;
        Ok(Self {
            servers: servers::start_encrypted(servers, &encryption)?,
            embedded: (0..embedded)
                .map(|_| EmbeddedNode::spawn())
                .collect::<Result<_, _>>()?,
            _encryption: encryption,
        })
    }

    /// The nodes of a case.
    pub(crate) fn urls(&self, nodes: Nodes) -> Vec<String> {
        match nodes {
            Nodes::Servers(count) => self.servers[..count].iter().map(Server::url).collect(),
            Nodes::Embedded(count) => self.embedded[..count]
                .iter()
                .map(EmbeddedNode::url)
                .collect(),
        }
    }

    fn urls_over_tls(&self, nodes: Nodes) -> Vec<String> {
        match nodes {
            Nodes::Servers(count) => {
                let servers = self.servers[..count].iter();
                servers.map(Server::url_over_tls).collect()
            }
            Nodes::Embedded(_) => Vec::new(), // They have none.
        }
    }

    /// A client of a case.
    pub(crate) fn client(&self, case: &Case, who: Who) -> Result<Box<dyn Client + '_>, Failure> {
        let urls = match who.is_over_tls() {
            true => self.urls_over_tls(case.nodes),
            false => self.urls(case.nodes),
        };
        let usual = Redlock::builder().nodes(&urls);
        if who == Who::LocalFrozen {
            return Ok(Box::new(self.frozen(Local::build(&usual, "local")?)));
        }
        if who == Who::RedlockFrozen {
            return Ok(Box::new(self.frozen(Shared::build(&usual, "redlock")?)));
        }
        client(&urls, case.callers, case.extending, who)
    }

    fn frozen<C: Caller>(&self, caller: C) -> Frozen<'_, C> {
        let client = Alone {
            caller,
            extending: false,
        };
        // Neither the first, whose answer comes first, nor the last.
        let server = &self.servers[self.servers.len() / 2];
        Frozen { client, server }
    }
}

/// Returns a client that needs only urls.
pub(crate) fn client(
    urls: &[String],
    callers: usize,
    extending: bool,
    who: Who,
) -> Result<Box<dyn Client>, Failure> {
    let name = format!("{who:?}");
    let addresses = || addresses(urls);
    let solo = |manner| {
        let caller = Solo::connect(&addresses()?, &name, manner)?;
        Ok::<_, Failure>(alone(caller, extending))
    };
    let batched = |needed| {
        let batch = Batch::connect(&addresses()?, &names(&name, callers), needed)?;
        Ok::<_, Failure>(Box::new(Outstanding::new(batch)))
    };
    Ok(match who {
        Who::Floor | Who::FloorAgain => solo(Manner::Majority)?,
        Who::FloorAll => solo(Manner::All)?,
        Who::FloorTls => alone(Encrypted::connect(urls, &name)?, extending),
        Who::FloorSpinning | Who::FloorSpinningAgain => solo(Manner::Spinning)?,
        Who::FloorBatched | Who::FloorBatchedAgain => batched(None)?,
        Who::FloorBatchedAll => batched(Some(urls.len()))?,
        Who::FloorThreads | Who::FloorThreadsAgain => {
            let post = Post::open(&addresses()?, &names(&name, callers))?;
            Box::new(Threads {
                callers: (0..callers as u16).map(|lock| post.caller(lock)).collect(),
                keep: Some(post),
            })
        }
        Who::Local | Who::LocalAgain | Who::LocalFrozen | Who::LocalTls => {
            alone(Local::build(&patient(urls), &name)?, extending)
        }
        Who::LocalSpinning => {
            let builder = patient(urls).spin(true);
            alone(Local::build(&builder, &name)?, extending)
        }
        Who::LocalFenced => alone(Local::fenced(&patient(urls), &name)?, extending),
        Who::LocalStrict => alone(Local::strict(&patient(urls), &name)?, extending),
        Who::Redlock | Who::RedlockFrozen | Who::RedlockTls => {
            alone(Shared::build(&patient(urls), &name)?, extending)
        }
        Who::RedlockTasks => Box::new(Tasks {
            runtime: runtime(false)?,
            callers: crowd(&Shared::build(&patient(urls), &name)?, &name, callers),
        }),
        Who::RedlockJoined => Box::new(Joined {
            callers: crowd(&Shared::build(&patient(urls), &name)?, &name, callers),
        }),
        Who::RedlockThreads => Box::new(Threads {
            callers: crowd(&Shared::build(&patient(urls), &name)?, &name, callers),
            keep: None,
        }),
        Who::RslockCurrent | Who::RslockMulti => {
            let runtime = runtime(who == Who::RslockMulti)?;
            let caller = Rslock::new(urls, &name);
            tasks(runtime, &caller, &name, callers, extending)
        }
        Who::MultiplexedCurrent | Who::MultiplexedMulti => {
            let runtime = runtime(who == Who::MultiplexedMulti)?;
            let caller = Multiplexed::connect(&runtime, urls, &name)?;
            tasks(runtime, &caller, &name, callers, extending)
        }
    })
}

fn alone(caller: impl Caller + 'static, extending: bool) -> Box<dyn Client> {
    Box::new(Alone { caller, extending })
}

/// One task that may extend, or many that do not.
fn tasks(
    runtime: tokio::runtime::Runtime,
    caller: &impl Futures,
    name: &str,
    callers: usize,
    extending: bool,
) -> Box<dyn Client> {
    match callers {
        1 => Box::new(Awaiting {
            runtime,
            caller: caller.named(name),
            extending,
        }),
        _ => Box::new(Tasks {
            runtime,
            callers: crowd(caller, name, callers),
        }),
    }
}

fn addresses(urls: &[String]) -> Result<Vec<SocketAddr>, Failure> {
    urls.iter()
        .map(|url| {
            let address = url.strip_prefix("redis://").unwrap_or(url);
            Ok(address.trim_end_matches('/').parse()?)
        })
        .collect()
}

/// One server is frozen while it runs.
struct Frozen<'a, C> {
    client: Alone<C>,
    server: &'a Server,
}

impl<C: Caller> Client for Frozen<'_, C> {
    fn prepare(&mut self) -> Result<(), Failure> {
        self.server.freeze()
    }

    /// It has the defaults. On a shared machine the other servers may get no processor for as long
    /// as they allow: that is reported, and does not end the run.
    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure> {
        while let Err(error) = self.client.run(until, log) {
            eprintln!("one node frozen: {error}");
            if until.reached(now(), log.cycles()) {
                break;
            }
        }
        match log.cycles() {
            0 => Err("nothing worked".into()),
            _ => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.server.thaw()?;
        // It has a backlog to work off.
        std::thread::sleep(Duration::from_millis(20));
        self.client.settle()
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use shearline_peers::cycle::Span;

    use super::*;

    /// How many keys there are. Those of other libraries do not count: on a busy machine they give up on an
    /// answer, and leave a key until it ends. Nor do the counters of fencing tokens, which are to stay.
    const OURS: &str = "local ours = 0 \
        for _, key in ipairs(redis.call('KEYS', '*')) do \
            if not (key:find('^Multiplexed') or key:find('^Rslock') or key:find('^shearline:')) then \
                ours = ours + 1 \
            end \
        end \
        return ours";

    /// Keys that are left show that a client did not release, or not everywhere.
    #[test]
    fn every_client_locks_and_leaves_no_key() {
        let encryption = Encryption::new().unwrap();
        let servers = servers::start_encrypted(3, &encryption).unwrap();
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let encrypted: Vec<String> = servers.iter().map(Server::url_over_tls).collect();
        for who in Who::value_variants() {
            let urls = match who.is_over_tls() {
                true => &encrypted,
                false => &urls,
            };
            for (callers, extending) in [(1, false), (1, true), (4, false)] {
                let alone = Until::Cycles(8);
                let mut log = Log::default();
                let mut client = client(urls, callers, extending, *who).unwrap();
                client.prepare().unwrap();
                client.run(alone, &mut log).unwrap();
                client.settle().unwrap();
                assert_eq!(log.cycles(), 8, "{who}, {callers}");
                assert!(log.times(Span::Acquire).iter().all(|nanos| 0 < *nanos));
            }
        }
        let marker = str::from_utf8(shearline::MARKER_KEY).unwrap();
        for server in &servers {
            assert_eq!(server.ask(&["DEL", marker]).unwrap(), ":1");
            let begin = now();
            while server.ask(&["EVAL", OURS, "0"]).unwrap() != ":0" {
                assert!(begin.elapsed() < Duration::from_secs(5), "keys are left");
            }
        }
    }

    #[test]
    fn a_frozen_server_goes_on_when_the_turn_ends() {
        let case = crate::cases::CASES
            .iter()
            .find(|case| case.name == "frozen-5")
            .unwrap();
        let world = World::start(&[case]).unwrap();
        let mut client = world.client(case, Who::LocalFrozen).unwrap();
        let mut log = Log::default();
        client.prepare().unwrap();
        client.run(Until::Cycles(3), &mut log).unwrap();
        client.settle().unwrap();
        assert_eq!(log.cycles(), 3);
        for server in &world.servers {
            assert_eq!(server.ask(&["PING"]).unwrap(), "+PONG");
        }
    }
}
