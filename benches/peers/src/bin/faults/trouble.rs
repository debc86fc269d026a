//! The disturbances of a node, and how they begin and end.

use std::fmt;

use clap::ValueEnum;
use shearline_peers::Failure;
use shearline_peers::proxy::Proxy;
use shearline_peers::servers::Server;

/// A disturbance.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Trouble {
    /// SIGSTOP: the kernel still takes the bytes that are sent.
    Stalled,
    /// Connections end, new ones are refused.
    Dead,
    /// The node answers `-OOM` to every `SET`.
    Refusing,
    /// Connections stay, but bytes that are sent vanish.
    BlackHoled,
    /// Answers come 20 ms later.
    Slow,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stalled => "stalled",
            Self::Dead => "dead",
            Self::Refusing => "refusing",
            Self::BlackHoled => "black-holed",
            Self::Slow => "slow by 20 ms",
        })
    }
}

/// Some servers that are disturbed from time to time, for one client. Dropping this ends the disturbance.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    trouble: Trouble,
    servers: &'a [Server],
    /// Proxies in front of them, for disturbances that need one.
    proxies: Vec<Proxy>,
    urls: Vec<String>,
}

impl<'a> Scene<'a> {
    /// Makes a scene in which the last `count` of these servers are disturbed.
    pub(crate) fn new(
        servers: &'a [Server],
        trouble: Trouble,
        count: usize,
    ) -> Result<Self, Failure> {
        let (well, ill) = servers.split_at(servers.len() - count);
        let proxies = match trouble {
            Trouble::Stalled | Trouble::Refusing => Vec::new(),
            Trouble::Dead | Trouble::BlackHoled | Trouble::Slow => ill
                .iter()
                .map(|server| Proxy::to(server.address()))
                .collect::<Result<_, _>>()?,
        };
        let mut urls = crate::urls(well);
        match proxies.is_empty() {
            true => urls.extend(crate::urls(ill)),
            false => urls.extend(proxies.iter().map(Proxy::url)),
        }
        Ok(Self {
            trouble,
            servers: ill,
            proxies,
            urls,
        })
    }

    /// Returns the URLs of all nodes for the client.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        match self.trouble {
            Trouble::Stalled => self.servers.iter().try_for_each(Server::freeze)?,
            Trouble::Refusing => self.limit_memory("1")?,
            Trouble::Dead => self.proxies.iter_mut().for_each(Proxy::close),
            Trouble::BlackHoled => self.proxies.iter().for_each(Proxy::swallow),
            Trouble::Slow => self.proxies.iter().for_each(Proxy::slow),
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        match self.trouble {
            Trouble::Stalled => self.servers.iter().try_for_each(Server::thaw),
            Trouble::Refusing => self.limit_memory("0"),
            Trouble::Dead | Trouble::BlackHoled | Trouble::Slow => {
                self.proxies.iter_mut().try_for_each(Proxy::recover)
            }
        }
    }

    fn limit_memory(&self, bytes: &str) -> Result<(), Failure> {
        for server in self.servers {
            let answer = server.ask(&["CONFIG", "SET", "maxmemory", bytes])?;
            if answer != "+OK" {
                return Err(format!("a server does not take a limit: {answer}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        // Disturbances that cannot be undone end with the process.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shearline_peers::clients::shearline::Local;
    use shearline_peers::cycle::now;
    use shearline_peers::proxy::DELAY;
    use shearline_peers::servers;

    use super::*;
    use crate::face::Face;

    #[test]
    fn two_faulty_nodes_leave_a_majority_three_do_not_and_all_recover() {
        let servers = servers::start(crate::NODES).unwrap();
        for trouble in Trouble::value_variants() {
            for count in [2, 3] {
                let mut scene = Scene::new(&servers, *trouble, count).unwrap();
                let mut face = Local::connect(scene.urls()).unwrap();
                face.await_ready().unwrap();
                scene.begin().unwrap();
                let begin = now();
                let outcome = face.lock_within(Duration::from_millis(300)).unwrap();
                let enough = count == 2 || *trouble == Trouble::Slow;
                assert_eq!(outcome.is_ok(), enough, "{trouble}, {count}: {outcome:?}");
                if enough && count == 3 {
                    assert!(DELAY <= begin.elapsed(), "{trouble}: {:?}", begin.elapsed());
                }
                scene.end().unwrap();
                face.await_ready().unwrap();
                face.lock_within(Duration::from_secs(5)).unwrap().unwrap();
            }
        }
    }
}
