//! Figures that are read from the client and the servers: processor time, memory, bytes and commands.

use std::fs;
use std::time::{Duration, Instant};

use shearline_peers::Failure;
use shearline_peers::cycle::{now, process_time};
use shearline_peers::servers::Server;

/// Everything that grows, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    at: Instant,
    /// The processor time of this process.
    client: Duration,
    /// The processor time of all servers.
    servers: Duration,
    /// Bytes that all servers have received.
    received: u64,
}

/// The growth from one moment to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    pub(crate) time: Duration,
    pub(crate) client: Duration,
    pub(crate) servers: Duration,
    pub(crate) received: u64,
}

impl Gauges {
    pub(crate) fn read(servers: &[Server]) -> Result<Self, Failure> {
        let (mut time, mut bytes) = (Duration::ZERO, 0);
        for server in servers {
            time += server.processor_time()?;
            bytes += received(server)?;
        }
        Ok(Self {
            at: now(),
            client: process_time(),
            servers: time,
            received: bytes,
        })
    }

    /// Returns what has grown since then.
    pub(crate) fn grown(&self, servers: &[Server]) -> Result<Grown, Failure> {
        let client = process_time();
        let after = Self::read(servers)?;
        Ok(Grown {
            time: after.at - self.at,
            client: client - self.client,
            servers: after.servers - self.servers,
            received: after.received - self.received,
        })
    }
}

/// Returns the bytes that a server has received in its life.
pub(crate) fn received(server: &Server) -> Result<u64, Failure> {
    number(&server.info("stats")?, "total_net_input_bytes")
}

/// Returns the bytes that a server has allocated.
pub(crate) fn used(server: &Server) -> Result<u64, Failure> {
    number(&server.info("memory")?, "used_memory")
}

fn number(info: &str, name: &str) -> Result<u64, Failure> {
    let values = info.lines().filter_map(|line| line.split_once(':'));
    let value = values.into_iter().find(|(known, _)| *known == name);
    let (_, value) = value.ok_or_else(|| format!("a server does not tell its {name}"))?;
    Ok(value.trim().parse()?)
}

/// Returns the bytes of this process that are in memory.
pub(crate) fn resident() -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.ok_or("no VmRSS")?.parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_whole_name() {
        let info = "$40\r\n# Memory\r\nused_memory_rss:7\r\nused_memory:12\r\n+OK\r\n";
        assert_eq!(number(info, "used_memory").ok(), Some(12));
        assert!(number(info, "memory").is_err());
    }
}
