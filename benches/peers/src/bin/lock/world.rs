//! The nodes of all contests, and the clients on them.

use std::net::SocketAddr;

use shearline_peers::Failure;
use shearline_peers::clients::crowd::{Joined, Tasks, Threads, crowd, names};
use shearline_peers::clients::multiplexed::Multiplexed;
use shearline_peers::clients::rslock::Rslock;
use shearline_peers::clients::shearline::{Kind, Local, Shared, patient};
use shearline_peers::clients::{Alone, runtime};
use shearline_peers::cycle::{Caller, Client};
use shearline_peers::encryption::Encryption;
use shearline_peers::floor::batch::{Batch, Outstanding};
use shearline_peers::floor::solo::{Manner, Solo};
use shearline_peers::floor::threads::Post;
use shearline_peers::servers::{self, Server};

use crate::who::Who;

/// All nodes. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct World {
    servers: Vec<Server>,
    _encryption: Encryption,
}

impl World {
    /// Starts this many servers, with TLS and without.
    pub(crate) fn start(count: usize) -> Result<Self, Failure> {
        let encryption = Encryption::new()?;
        Ok(Self {
            servers: servers::start_encrypted(count, &encryption)?,
            _encryption: encryption,
        })
    }

    /// Returns a client with this many locks at once.
    pub(crate) fn client(&self, callers: usize, who: Who) -> Result<Box<dyn Client>, Failure> {
        let url = match who.is_over_tls() {
            true => Server::url_over_tls,
            false => Server::url,
        };
        let urls: Vec<String> = self.servers.iter().map(url).collect();
        client(&urls, callers, who)
    }
}

/// Returns a client that needs only urls.
fn client(urls: &[String], callers: usize, who: Who) -> Result<Box<dyn Client>, Failure> {
    let name = format!("{who:?}");
    let addresses = || addresses(urls);
    let solo = |manner| {
        let caller = Solo::connect(&addresses()?, &name, manner)?;
        Ok::<_, Failure>(alone(caller))
    };
    let batched = |needed| {
        let batch = Batch::connect(&addresses()?, &names(&name, callers), needed)?;
        Ok::<_, Failure>(Box::new(Outstanding::new(batch)))
    };
    Ok(match who {
        Who::Floor | Who::FloorAgain => solo(Manner::Majority)?,
        Who::FloorAll => solo(Manner::All)?,
        Who::FloorTls => alone(Solo::over_tls(urls, &name)?),
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
        Who::Local | Who::LocalAgain | Who::LocalTls => alone(Local::build(&patient(urls), &name)?),
        Who::LocalSpinning => {
            let builder = patient(urls).spin(true);
            alone(Local::build(&builder, &name)?)
        }
        Who::LocalShared => alone(Local::build(&patient(urls), &name)?.of(Kind::Shared)),
        Who::LocalPermit => alone(Local::build(&patient(urls), &name)?.of(Kind::Permit(16))),
        Who::LocalFenced => alone(Local::fenced(&patient(urls), &name)?),
        Who::Redlock | Who::RedlockTls => alone(Shared::build(&patient(urls), &name)?),
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
            let callers = crowd(&Rslock::new(urls, &name), &name, callers);
            Box::new(Tasks { runtime, callers })
        }
        Who::MultiplexedCurrent | Who::MultiplexedMulti => {
            let runtime = runtime(who == Who::MultiplexedMulti)?;
            let one = Multiplexed::connect(&runtime, urls, &name)?;
            let callers = crowd(&one, &name, callers);
            Box::new(Tasks { runtime, callers })
        }
    })
}

fn alone(caller: impl Caller + 'static) -> Box<dyn Client> {
    Box::new(Alone(caller))
}

fn addresses(urls: &[String]) -> Result<Vec<SocketAddr>, Failure> {
    urls.iter()
        .map(|url| {
            let address = url.strip_prefix("redis://").unwrap_or(url);
            Ok(address.trim_end_matches('/').parse()?)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::ValueEnum;
    use shearline_peers::cycle::{Log, Span, Until, now};

    use super::*;

    /// A script that returns how many keys there are. Those of other libraries do not count: on a busy machine they
    /// stop waiting for an answer, and leave a key until it ends. The counters of fencing tokens do not count either,
    /// because they have to stay.
    const OURS: &str = "local ours = 0 \
        for _, key in ipairs(redis.call('KEYS', '*')) do \
            if not (key:find('^Multiplexed') or key:find('^Rslock') or key:find('^shearline:')) then \
                ours = ours + 1 \
            end \
        end \
        return ours";

    /// If a key is left, a client did not release it, or not everywhere.
    #[test]
    fn every_client_locks_and_leaves_no_key() {
        let world = World::start(3).unwrap();
        for who in Who::value_variants() {
            for callers in [1, 4] {
                let mut log = Log::default();
                let mut client = world.client(callers, *who).unwrap();
                client.prepare().unwrap();
                client.run(Until::Cycles(8), &mut log).unwrap();
                client.settle().unwrap();
                assert_eq!(log.cycles(), 8, "{who}, {callers}");
                assert!(log.times(Span::Acquire).iter().all(|nanos| 0 < *nanos));
            }
        }
        for server in &world.servers {
            let begin = now();
            while server.ask(&["EVAL", OURS, "0"]).unwrap() != ":0" {
                assert!(begin.elapsed() < Duration::from_secs(5), "keys are left");
            }
        }
    }
}
