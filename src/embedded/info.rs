//! The replies that describe the node: `HELLO` and `INFO`.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::call::Call;
use super::flavour::Flavour;
use super::reply::{Answer, Reply};

impl Flavour {
    const fn name(self) -> &'static str {
        if self.is_valkey() { "valkey" } else { "redis" }
    }

    const fn version(self) -> &'static str {
        match self {
            Self::Redis | Self::Proxied => "7.0.15",
            Self::Redis84 => "8.4.0",
            Self::Valkey81 => "8.1.4",
            Self::Valkey => "9.0.0",
            Self::Valkey91 => "9.1.2",
        }
    }
}

/// Returns the answer to `HELLO`.
pub(super) fn hello(call: &Call<'_>) -> Reply {
    let text = |text: &str| Reply::bulk(text.as_bytes());
    let protocol = if call.session.resp3 { 3 } else { 2 };
    Reply::Map(vec![
        ("server", text(call.store.flavour.name())),
        ("version", text(call.store.flavour.version())),
        ("proto", Reply::Integer(protocol)),
        ("id", Reply::Integer(call.session.id.cast_signed())),
        ("mode", text("standalone")),
        ("role", text("master")),
        ("modules", Reply::Array(vec![])),
    ])
}

/// `INFO [section ...]`: all sections or the named sections, in the same order as in the server.
pub(super) fn info(call: &mut Call<'_>) -> Answer {
    let wanted = call.words_from(1);
    let is_wanted = |name: &[u8]| {
        wanted.is_empty() || wanted.iter().any(|word| word.eq_ignore_ascii_case(name))
    };
    let memory = String::from("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n");
    let sections = [
        (&b"server"[..], server(call)),
        (b"memory", memory),
        (b"replication", replication(call)),
    ];
    let sections = sections.into_iter().filter(|(name, _)| is_wanted(name));
    let sections: Vec<String> = sections.map(|(_, section)| section).collect();
    Ok(Reply::Text(sections.join("\r\n")))
}

fn server(call: &Call<'_>) -> String {
    let version = call.store.flavour.version();
    let version = match call.store.flavour.is_valkey() {
        false => format!("redis_version:{version}\r\nredis_mode:standalone\r\n"),
        // For clients that know only Redis, Valkey also reports a compatible version of Redis.
        true => format!(
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:{version}\r\n\
             server_mode:standalone\r\n"
        ),
    };
    let (run_id, uptime) = (&call.store.run_id, call.store.uptime(call.at));
    format!("# Server\r\n{version}run_id:{run_id}\r\nuptime_in_seconds:{uptime}\r\n")
}

fn replication(call: &Call<'_>) -> String {
    format!(
        "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid:{}\r\n",
        call.store.replid
    )
}
