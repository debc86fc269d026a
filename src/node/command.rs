//! The commands that a lock needs, as bytes.
//!
//! Each is written once per round and dialect and then copied into the out buffer of every node.
//! The scripts are sent by their SHA-1 digest; a node that has forgotten them gets the text.
//! The digests are constants, because some builds of some systems may not compute SHA-1 at all;
//! a test holds them against a server.

use alloc::vec::Vec;
use core::time::Duration;

use crate::resource::Entry;
use crate::resp;

/// A script, and its digest.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) sha1: &'static str,
}

/// Deletes the key if it holds the token: `1` deleted, `0` not there, `-1` another's.
pub(crate) const RELEASE: Script = Script {
    text: "local v=redis.call('get',KEYS[1]) \
           if v==ARGV[1] then return redis.call('del',KEYS[1]) end \
           if v then return -1 end return 0",
    sha1: "4453c08d4b7260dfec522c1d9be6140ee00157cb",
};

/// Raises the expiry of the key if it holds the token: `1` it lives at least that long now, `0`
/// not there, `-1` another's. It never shortens an expiry, nor gives one to a key that an operator
/// made permanent.
pub(crate) const EXTEND: Script = Script {
    text: "local v=redis.call('get',KEYS[1]) \
           if v==ARGV[1] then local p=redis.call('pttl',KEYS[1]) \
           if p>=0 and p<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end \
           return 1 end \
           if v then return -1 end return 0",
    sha1: "20e6e4505b7e6e25b7c6801967c3885864dca680",
};

/// How a node is asked to run a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// By the digest.
    Sha1,
    /// By the whole text: the node may have forgotten the script.
    Text,
    /// By a native compare-and-delete: `DELIFEQ` (Valkey 9). For releases only.
    DelIfEq,
    /// By a native compare-and-delete: `DELEX .. IFEQ` (Redis 8.4). For releases only.
    DelEx,
}

/// `SET key token NX PX ttl`.
pub(crate) fn set(out: &mut Vec<u8>, entry: &Entry, ttl: Duration) {
    let millis = resp::Decimal::new(millis(ttl));
    let (key, token) = (entry.resource(), entry.token().as_bytes());
    mutant!(SetWithoutNx =>
        return resp::command(out, &[b"SET", key, token, b"PX", millis.as_bytes()]));
    resp::command(out, &[b"SET", key, token, b"NX", b"PX", millis.as_bytes()]);
}

/// The release of `entry`, if the node's key holds its token.
pub(crate) fn release(out: &mut Vec<u8>, entry: &Entry, dialect: Dialect) {
    let (key, token) = (entry.resource(), entry.token().as_bytes());
    mutant!(ReleaseByPlainDel => return resp::command(out, &[b"DEL", key]));
    match dialect {
        Dialect::Sha1 => {
            resp::command(
                out,
                &[b"EVALSHA", RELEASE.sha1.as_bytes(), b"1", key, token],
            );
        }
        Dialect::Text => resp::command(out, &[b"EVAL", RELEASE.text.as_bytes(), b"1", key, token]),
        Dialect::DelIfEq => resp::command(out, &[b"DELIFEQ", key, token]),
        Dialect::DelEx => resp::command(out, &[b"DELEX", key, b"IFEQ", token]),
    }
}

/// The extension of `entry` to at least `ttl` from its execution on.
pub(crate) fn extend(out: &mut Vec<u8>, entry: &Entry, ttl: Duration, dialect: Dialect) {
    let (key, token) = (entry.resource(), entry.token().as_bytes());
    let millis = resp::Decimal::new(millis(ttl));
    mutant!(ExtendByPexpire => return resp::command(out, &[b"PEXPIRE", key, millis.as_bytes()]));
    let (verb, script): (&[u8], _) = match dialect {
        Dialect::Text => (b"EVAL", EXTEND.text),
        Dialect::Sha1 | Dialect::DelIfEq | Dialect::DelEx => (b"EVALSHA", EXTEND.sha1),
    };
    resp::command(
        out,
        &[verb, script.as_bytes(), b"1", key, token, millis.as_bytes()],
    );
}

/// `ttl` in the unit of the server. The limits keep it far below 2^63.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{COMMAND_BYTES_MAX, RESOURCE_BYTES_MAX, TOKEN_BYTES_MAX};
    use alloc::string::String;

    fn shown(write: impl Fn(&mut Vec<u8>, &Entry)) -> String {
        let mut out = Vec::new();
        write(&mut out, &Entry::new(Vec::new(), b"k\r\n", b"token"));
        out.escape_ascii().to_string().replace(r"\r\n", "|")
    }

    use alloc::string::ToString;

    #[test]
    fn the_commands_are_what_the_servers_read() {
        assert_eq!(
            shown(|out, entry| set(out, entry, Duration::from_micros(1_999_999))),
            "*6|$3|SET|$3|k||$5|token|$2|NX|$2|PX|$4|1999|"
        );
        assert_eq!(
            shown(|out, entry| release(out, entry, Dialect::Sha1)),
            "*5|$7|EVALSHA|$40|4453c08d4b7260dfec522c1d9be6140ee00157cb|$1|1|$3|k||$5|token|"
        );
        assert_eq!(
            shown(|out, entry| release(out, entry, Dialect::DelIfEq)),
            "*3|$7|DELIFEQ|$3|k||$5|token|"
        );
        assert_eq!(
            shown(|out, entry| release(out, entry, Dialect::DelEx)),
            "*4|$5|DELEX|$3|k||$4|IFEQ|$5|token|"
        );
        assert_eq!(
            shown(|out, entry| extend(out, entry, Duration::from_secs(10), Dialect::DelIfEq)),
            "*6|$7|EVALSHA|$40|20e6e4505b7e6e25b7c6801967c3885864dca680|$1|1|$3|k||$5|token|\
             $5|10000|"
        );
    }

    #[test]
    fn no_command_is_longer_than_its_limit() {
        let longest = Entry::new(
            Vec::new(),
            &[b'k'; RESOURCE_BYTES_MAX],
            &[b't'; TOKEN_BYTES_MAX],
        );
        let mut out = Vec::new();
        extend(&mut out, &longest, Duration::MAX, Dialect::Text);
        assert!(out.len() <= COMMAND_BYTES_MAX, "{}", out.len());
    }
}
