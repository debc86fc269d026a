//! The commands that a lock needs, as bytes.
//!
//! Each is a template that was encoded at compile time; only the entry (key and token in wire form)
//! is copied into it, and the ttl is written. That is done once per round and dialect, and the
//! result is copied into the out buffer of every node.
//!
//! The scripts are sent by their SHA-1 digest; a node that has forgotten them gets the text.
//! The digests are constants, because some builds of some systems may not compute SHA-1 at all;
//! a test holds them against a server.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::resp::Word::{Encoded, Hole, Text};
use crate::resp::{Decimal, Template};

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

/// Tells for how many milliseconds the key lives on if it holds the token, and adds one, because it
/// may be none: `0` not there, `-1` another's. A key that an operator made permanent lives for
/// 285 000 years; a number of Lua is exact up to about there.
///
/// It is always sent by its text: it is too rare to be loaded in the handshake.
pub(crate) const CONFIRM: Script = Script {
    text: "local v=redis.call('get',KEYS[1]) \
           if v==ARGV[1] then local p=redis.call('pttl',KEYS[1]) \
           if p<0 then p=9e15 end return p+1 end \
           if v then return -1 end return 0",
    sha1: "eff39a10bfd4f5ef8734aa1fc598a9ee03919210",
};

/// The first `SET` on a connection: takes the lock if the user may run all the commands in the
/// arguments behind token and ttl on its key. `1` taken, `0` another's, `-n` the n-th command is
/// forbidden, and nothing was done. Without a ttl it only asks. Redis 6.2 cannot tell, and takes it.
///
/// It asks with the name of the lock itself, because permissions depend on it. The name stands
/// there twice because some of the commands want a second argument; where that is another key it is
/// the same.
pub(crate) const SET_IF_PERMITTED: Script = Script {
    text: "local c,k=redis.acl_check_cmd,KEYS[1] if c then for i=3,#ARGV do \
           if not c(ARGV[i],k,k) then return 2-i end end end \
           if ARGV[2]=='' then return 0 end \
           return redis.call('set',k,ARGV[1],'nx','px',ARGV[2]) and 1 or 0",
    sha1: "9b47c68a78b0bdd48729ce4a1870d07463b819a1",
};

/// How a script or its native equivalent is sent to a node.
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

impl Dialect {
    /// Returns the command that the user needs a permission for, as ACL rules name it.
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Self::Sha1 => "evalsha",
            Self::Text => "eval",
            Self::DelIfEq => "delifeq",
            Self::DelEx => "delex",
        }
    }
}

static ACQUIRE: Template<2, 32> =
    Template::new(&[Text(b"SET"), Encoded(2), Text(b"NX"), Text(b"PX"), Hole]);

static RELEASE_BY_SHA1: Template<1, 128> = Template::new(&[
    Text(b"EVALSHA"),
    Text(RELEASE.sha1.as_bytes()),
    Text(b"1"),
    Encoded(2),
]);

static RELEASE_BY_TEXT: Template<1, 256> = Template::new(&[
    Text(b"EVAL"),
    Text(RELEASE.text.as_bytes()),
    Text(b"1"),
    Encoded(2),
]);

static DELIFEQ: Template<1, 32> = Template::new(&[Text(b"DELIFEQ"), Encoded(2)]);

static DELEX: Template<2, 32> =
    Template::new(&[Text(b"DELEX"), Encoded(1), Text(b"IFEQ"), Encoded(1)]);

static EXTEND_BY_SHA1: Template<2, 128> = Template::new(&[
    Text(b"EVALSHA"),
    Text(EXTEND.sha1.as_bytes()),
    Text(b"1"),
    Encoded(2),
    Hole,
]);

static EXTEND_BY_TEXT: Template<2, 512> = Template::new(&[
    Text(b"EVAL"),
    Text(EXTEND.text.as_bytes()),
    Text(b"1"),
    Encoded(2),
    Hole,
]);

static CONFIRM_BY_TEXT: Template<1, 256> = Template::new(&[
    Text(b"EVAL"),
    Text(CONFIRM.text.as_bytes()),
    Text(b"1"),
    Encoded(2),
]);

/// `SET key token NX PX ttl`.
pub(crate) fn set(out: &mut Vec<u8>, entry: &Entry, ttl: Duration) {
    ACQUIRE.write(out, [entry.arguments(), millis(ttl).as_bytes()]);
}

/// The release of `entry`, if the node's key holds its token.
pub(crate) fn release(out: &mut Vec<u8>, entry: &Entry, dialect: Dialect) {
    let arguments = entry.arguments();
    match dialect {
        Dialect::Sha1 => RELEASE_BY_SHA1.write(out, [arguments]),
        Dialect::Text => RELEASE_BY_TEXT.write(out, [arguments]),
        Dialect::DelIfEq => DELIFEQ.write(out, [arguments]),
        Dialect::DelEx => DELEX.write(out, [entry.key_argument(), entry.token_argument()]),
    }
}

/// The extension of `entry` to at least `ttl` from its execution on.
pub(crate) fn extend(out: &mut Vec<u8>, entry: &Entry, ttl: Duration, dialect: Dialect) {
    let ttl = millis(ttl);
    let fillings = [entry.arguments(), ttl.as_bytes()];
    match dialect {
        Dialect::Text => EXTEND_BY_TEXT.write(out, fillings),
        Dialect::Sha1 | Dialect::DelIfEq | Dialect::DelEx => EXTEND_BY_SHA1.write(out, fillings),
    }
}

/// The question for how long the node keeps `entry`.
pub(crate) fn confirm(out: &mut Vec<u8>, entry: &Entry) {
    CONFIRM_BY_TEXT.write(out, [entry.arguments()]);
}

/// `SET key token NX PX ttl` if the user may run all of `commands` on the key.
pub(crate) fn set_if_permitted(
    out: &mut Vec<u8>,
    entry: &Entry,
    ttl: Duration,
    commands: &[&'static str],
) {
    let token = entry.token();
    if_permitted(
        out,
        entry,
        [token.as_bytes(), millis(ttl).as_bytes()],
        commands,
    );
}

/// The question which of `commands` the user may not run on the key of `entry`.
pub(crate) fn ask_permission(out: &mut Vec<u8>, entry: &Entry, commands: &[&'static str]) {
    if_permitted(out, entry, [b"", b""], commands);
}

fn if_permitted(out: &mut Vec<u8>, entry: &Entry, set: [&[u8]; 2], commands: &[&'static str]) {
    let script = SET_IF_PERMITTED.text.as_bytes();
    let mut words = alloc::vec![&b"EVAL"[..], script, b"1", entry.resource()];
    words.extend(set);
    words.extend(commands.iter().map(|command| command.as_bytes()));
    crate::resp::command(out, &words);
}

/// `ttl` in the unit of the server. The limits keep it far below 2^63.
pub(super) fn millis(ttl: Duration) -> Decimal {
    Decimal::new(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{COMMAND_BYTES_MAX, RESOURCE_BYTES_MAX, TOKEN_BYTES_MAX};
    use crate::resp::command;
    use alloc::string::{String, ToString};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn shown(write: impl Fn(&mut Vec<u8>, &Entry)) -> String {
        let mut out = Vec::new();
        write(&mut out, &Entry::new(Vec::new(), b"k\r\n", b"token"));
        out.escape_ascii().to_string().replace(r"\r\n", "|")
    }

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

    /// `write` behind bytes that are there already.
    fn written(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = b"before".to_vec();
        write(&mut out);
        out.split_off(b"before".len())
    }

    fn encoded(words: &[&[u8]]) -> Vec<u8> {
        written(|out| command(out, words))
    }

    proptest! {
        #[test]
        fn every_template_writes_what_the_general_encoder_writes(
            key in vec(any::<u8>(), 0..=RESOURCE_BYTES_MAX),
            token in vec(any::<u8>(), 0..=TOKEN_BYTES_MAX),
            ttl in prop_oneof![0..100_000_u64, any::<u64>()],
        ) {
            let entry = &Entry::new(Vec::new(), &key, &token);
            let (key, token) = (&key[..], &token[..]);
            let whole = Duration::from_millis(ttl);
            let digits = ttl.to_string();
            let ttl = digits.as_bytes();
            prop_assert_eq!(
                written(|out| set(out, entry, whole)),
                encoded(&[b"SET", key, token, b"NX", b"PX", ttl])
            );
            for (dialect, words) in [
                (Dialect::Sha1, &[b"EVALSHA", RELEASE.sha1.as_bytes(), b"1", key, token][..]),
                (Dialect::Text, &[b"EVAL", RELEASE.text.as_bytes(), b"1", key, token]),
                (Dialect::DelIfEq, &[b"DELIFEQ", key, token]),
                (Dialect::DelEx, &[b"DELEX", key, b"IFEQ", token]),
            ] {
                prop_assert_eq!(written(|out| release(out, entry, dialect)), encoded(words));
            }
            prop_assert_eq!(
                written(|out| confirm(out, entry)),
                encoded(&[b"EVAL", CONFIRM.text.as_bytes(), b"1", key, token])
            );
            for (dialect, verb, script) in [
                (Dialect::Sha1, &b"EVALSHA"[..], EXTEND.sha1),
                (Dialect::Text, b"EVAL", EXTEND.text),
                (Dialect::DelIfEq, b"EVALSHA", EXTEND.sha1),
                (Dialect::DelEx, b"EVALSHA", EXTEND.sha1),
            ] {
                prop_assert_eq!(
                    written(|out| extend(out, entry, whole, dialect)),
                    encoded(&[verb, script.as_bytes(), b"1", key, token, ttl])
                );
            }
        }
    }
}
