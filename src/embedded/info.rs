//! What the node says about itself: `HELLO` and `INFO`.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::call::{Call, nothing};
use super::flavour::Flavour;
use super::reply::{Answer, Protocol, Reply};
use super::session::Session;
use super::state::State;

impl Flavour {
    const fn name(self) -> &'static str {
        match self {
            Self::Redis | Self::Redis84 | Self::Proxied => "redis",
            Self::Valkey | Self::Valkey81 | Self::Valkey91 => "valkey",
        }
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
pub(super) fn hello(state: &State, session: &Session) -> Reply {
    let text = |text: &str| Reply::bulk(text.as_bytes());
    let protocol = match session.protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    Reply::Map(vec![
        ("server", text(state.flavour.name())),
        ("version", text(state.flavour.version())),
        ("proto", Reply::Integer(protocol)),
        ("id", Reply::Integer(session.id.cast_signed())),
        ("mode", text("standalone")),
        ("role", text("master")),
        ("modules", nothing()),
    ])
}

/// `INFO [section ...]`: all that there are, or the named ones, in the order of the server.
pub(super) fn info(state: &mut State, call: &mut Call<'_>) -> Answer {
    let wanted = call.words_from(1);
    let is_wanted = |section: &str| {
        let names = [section, "default", "all", "everything"];
        let mut names = names.iter().map(|name| name.as_bytes());
        wanted.is_empty() || names.any(|name| wanted.iter().any(|w| w.eq_ignore_ascii_case(name)))
    };
    let sections = [
        ("server", server(state, call)),
        ("memory", memory()),
        ("replication", replication(state)),
    ];
    let mut text = String::new();
    for (_, section) in sections.iter().filter(|(name, _)| is_wanted(name)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        text.push_str(section);
    }
    Ok(Reply::Text(text))
}

fn server(state: &State, call: &Call<'_>) -> String {
    let version = state.flavour.version();
    let version = match state.flavour {
        Flavour::Redis | Flavour::Redis84 | Flavour::Proxied => {
            format!("redis_version:{version}\r\nredis_mode:standalone\r\n")
        }
        // For clients that know no other, a Valkey says which Redis it stands for.
        Flavour::Valkey | Flavour::Valkey81 | Flavour::Valkey91 => format!(
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:{version}\r\n\
             server_mode:standalone\r\n"
        ),
    };
    let (run_id, uptime) = (&state.run_id, call.uptime.as_secs());
    format!("# Server\r\n{version}run_id:{run_id}\r\nuptime_in_seconds:{uptime}\r\n")
}

fn memory() -> String {
    String::from("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n")
}

fn replication(state: &State) -> String {
    format!(
        "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid:{}\r\n",
        state.replid
    )
}
