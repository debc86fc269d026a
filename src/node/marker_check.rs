//! The scripts of the strict restart guard, and the commands around them.
//!
//! [`JOIN`] reads and writes the [marker](super::marker) of a node; it is run at every handshake,
//! and whenever another script answers that the marker is not the one that it was given. The others
//! do to the key of the lock exactly what the plain commands do, whether the node votes or not: a
//! key that does not count still keeps others out. What they answer is two integers: what the plain
//! command would have said, and whether it counts.
//!
//! ```text
//! {said, 0}     it counts: the marker is the one given, and there is no barrier
//! {said, n}     it does not: the barrier ends within n milliseconds
//! {said, -1}    it does not: the marker is missing, or another
//! ```
//!
//! A barrier that was made permanent counts as one second, in every answer.
//!
//! # Not here
//!
//! Releases: they are the plain ones. A key may be released on a node whether it votes or not.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::resource::{BARRIER_KEY, MARKER_KEY};
use crate::resp::Word::{Encoded, Hole, Text};
use crate::resp::{Template, command};

use super::command::{Dialect, Script, millis};

/// Makes a node one of a cluster, or says why it is not.
///
/// Keys: the marker and the barrier. Arguments: `run_id`, longest ttl, nodes, quorum, cluster,
/// durable (`1` it is, `0` it is not, `-` not known), the barrier for that ttl, and the mode: `join`,
/// `trust` or `anew`. Answers three: 1, or 0 where the marker is another cluster's and nothing was
/// changed; for how many milliseconds the barrier stands; the marker as it is now.
///
/// A marker is written where it is missing, of another incarnation of the server, or of a shorter
/// longest ttl, each with a barrier; a barrier is written before its marker, and never shortened.
/// There is none for another incarnation where both the marker and this client say that nothing is
/// lost in a restart. A server that has a replica by now, or was one, is not durable, even if the
/// client has read otherwise before: its marker may be that of another master. `anew` makes the node
/// one of this cluster regardless of its marker; `trust` does without the barrier.
pub(crate) const JOIN: Script = Script {
    text: "local m,p=redis.call('get',KEYS[1]),redis.call('pttl',KEYS[2]) \
           local left=p+1 if p==-1 then left=1000 elseif p<0 then left=0 end \
           local ttl,span,mode=tonumber(ARGV[2]),tonumber(ARGV[7]),ARGV[8] \
           local top,d,lost=ttl,ARGV[6],true \
           if d=='1' then \
           local i=tostring(redis.pcall('info','replication')) \
           if not string.find(i,'connected_slaves:0%c.*master_replid2:0+%c') then d='0' end end \
           if m then \
           local r,t,n,q,e,c=string.match(m,'^1 (%S+) (%d+) (%d+) (%d+) ([01]) (%S+)$') \
           if (n~=ARGV[3] or q~=ARGV[4] or c~=ARGV[5]) and mode~='anew' then return {0,left,m} end \
           t=tonumber(t or 0) top=math.max(ttl,t) \
           if mode~='anew' then \
           if r==ARGV[1] then lost=ttl>t if d=='-' then d=e elseif e=='0' then d=e end \
           else lost=ttl>t or e~='1' or d~='1' end \
           ttl=top end end \
           if d~='1' then d='0' end \
           local w='1 '..ARGV[1]..' '..string.format('%.0f',ttl)..' '..ARGV[3]..' '..ARGV[4]..' '..d..' '..ARGV[5] \
           if mode=='trust' then redis.call('del',KEYS[2]) left=0 \
           elseif lost then \
           local bar=math.ceil(span*top/tonumber(ARGV[2])) \
           if p~=-1 and bar>left then redis.call('set',KEYS[2],'1','px',string.format('%.0f',bar)) left=bar end end \
           if w~=m then redis.call('set',KEYS[1],w) end \
           return {1,left,w}",
    sha1: "59534fe468c207290343f3f842fceb3d4c79f9bb",
};

/// The end of a script with a marker check, which has put the answer of the plain command into `s`.
/// It adds whether that counts. The expected marker is this argument.
macro_rules! said_and_whether_it_counts {
    ($marker:literal) => {
        concat!(
            "local m,b=redis.pcall('get',KEYS[2]),redis.call('pttl',KEYS[3]) if m~=",
            $marker,
            " then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end return {s,b}"
        )
    };
}

/// `SET NX PX`, and whether it counts: `said` is 1 or 0. If the user may not run the n-th of the
/// commands behind the marker, `-n` alone, and nothing was done: see
/// [`SET_IF_PERMITTED`](super::command::SET_IF_PERMITTED).
pub(crate) const CHECKED_ACQUIRE: Script = Script {
    text: concat!(
        "local c,s=redis.acl_check_cmd,0 if c then for i=4,#ARGV do \
           if not c(ARGV[i],KEYS[1],KEYS[1]) then return 3-i end end end \
           if redis.call('set',KEYS[1],ARGV[1],'nx','px',ARGV[2]) then s=1 end ",
        said_and_whether_it_counts!("ARGV[3]")
    ),
    sha1: "4a5c9d63a89474a4582f277fc9c21b30d5c0e51b",
};

/// The [extension](super::command::EXTEND), and whether it counts.
pub(crate) const CHECKED_EXTEND: Script = Script {
    text: concat!(
        "local v,s=redis.call('get',KEYS[1]),0 \
           if v==ARGV[1] then s=1 local p=redis.call('pttl',KEYS[1]) \
           if p>=0 and p<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end \
           elseif v then s=-1 end ",
        said_and_whether_it_counts!("ARGV[3]")
    ),
    sha1: "25ef8e777557e66a1643d3737113a4d761dc5ced",
};

/// The [confirmation](super::command::CONFIRM), and whether it counts.
pub(crate) const CHECKED_CONFIRM: Script = Script {
    text: concat!(
        "local v,s=redis.call('get',KEYS[1]),0 \
           if v==ARGV[1] then s=redis.call('pttl',KEYS[1]) if s<0 then s=9e15 end s=s+1 \
           elseif v then s=-1 end ",
        said_and_whether_it_counts!("ARGV[2]")
    ),
    sha1: "2b1d0e9b48ac40a8976b18239dedc4e1eb6b78ef",
};

static ACQUIRE: Checked = Checked::new(&CHECKED_ACQUIRE);

static EXTEND: Checked = Checked::new(&CHECKED_EXTEND);

static CONFIRM_BY_TEXT: Template<3, 448> = Template::new(&[
    Text(b"EVAL"),
    Text(CHECKED_CONFIRM.text.as_bytes()),
    Text(b"3"),
    Encoded(1),
    Text(MARKER_KEY),
    Text(BARRIER_KEY),
    Encoded(1),
    Encoded(1),
]);

/// The commands that run a script with a marker check and a ttl.
#[derive(Debug)]
struct Checked {
    by_sha1: Template<4, 192>,
    by_text: Template<4, 576>,
}

impl Checked {
    const fn new(script: &Script) -> Self {
        Self {
            by_sha1: Self::template(b"EVALSHA", script.sha1),
            by_text: Self::template(b"EVAL", script.text),
        }
    }

    const fn template<const BYTES: usize>(verb: &[u8], script: &str) -> Template<4, BYTES> {
        Template::new(&[
            Text(verb),
            Text(script.as_bytes()),
            Text(b"3"),
            Encoded(1),
            Text(MARKER_KEY),
            Text(BARRIER_KEY),
            Encoded(1),
            Hole,
            Encoded(1),
        ])
    }

    fn write(
        &self,
        out: &mut Vec<u8>,
        entry: &Entry,
        ttl: Duration,
        marker: &[u8],
        dialect: Dialect,
    ) {
        let (key, token) = (entry.key_argument(), entry.token_argument());
        let ttl = millis(ttl);
        let fillings = [key, token, ttl.as_bytes(), marker];
        match dialect {
            Dialect::Text => self.by_text.write(out, fillings),
            Dialect::Sha1 | Dialect::DelIfEq | Dialect::DelEx => self.by_sha1.write(out, fillings),
        }
    }
}

/// Writes the `SET` of `entry` that checks `marker`, an argument in wire form.
pub(crate) fn set(
    out: &mut Vec<u8>,
    entry: &Entry,
    ttl: Duration,
    marker: &[u8],
    dialect: Dialect,
) {
    ACQUIRE.write(out, entry, ttl, marker, dialect);
}

/// Writes the same, to be done only if the user may run all of `commands` on the key.
pub(crate) fn set_if_permitted(
    out: &mut Vec<u8>,
    entry: &Entry,
    ttl: Duration,
    marker: &[u8],
    commands: &[&'static str],
) {
    let (key, token) = (entry.resource(), entry.token());
    let ttl = millis(ttl);
    let script = CHECKED_ACQUIRE.text.as_bytes();
    let mut words = alloc::vec![&b"EVAL"[..], script, b"3", key, MARKER_KEY, BARRIER_KEY];
    words.extend([token.as_bytes(), ttl.as_bytes(), unwrapped(marker)]);
    words.extend(commands.iter().map(|command| command.as_bytes()));
    command(out, &words);
}

/// Returns the bytes of an argument in wire form.
fn unwrapped(argument: &[u8]) -> &[u8] {
    let header = argument.iter().position(|byte| *byte == b'\n');
    let bytes = header.and_then(|end| argument.get(end + 1..argument.len().checked_sub(2)?));
    bytes.unwrap_or_default()
}

/// Writes the extension of `entry` that checks `marker`.
pub(crate) fn extend(
    out: &mut Vec<u8>,
    entry: &Entry,
    ttl: Duration,
    marker: &[u8],
    dialect: Dialect,
) {
    EXTEND.write(out, entry, ttl, marker, dialect);
}

/// Writes the question for how long the node keeps `entry`, which checks `marker`.
pub(crate) fn confirm(out: &mut Vec<u8>, entry: &Entry, marker: &[u8]) {
    let (key, token) = (entry.key_argument(), entry.token_argument());
    CONFIRM_BY_TEXT.write(out, [key, token, marker]);
}

/// Writes the command that runs [`JOIN`] with these `arguments`, always by its text because it is
/// rare.
pub(crate) fn join(out: &mut Vec<u8>, arguments: [&[u8]; 8]) {
    let mut words: Vec<&[u8]> = Vec::with_capacity(13);
    words.extend([b"EVAL", JOIN.text.as_bytes(), b"2", MARKER_KEY, BARRIER_KEY]);
    words.extend(arguments);
    command(out, &words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{COMMAND_BYTES_MAX, RESOURCE_BYTES_MAX, TOKEN_BYTES_MAX};
    use crate::resp::argument;
    use alloc::string::String;

    fn shown(write: impl Fn(&mut Vec<u8>, &Entry, &[u8])) -> String {
        let (mut out, mut marker) = (Vec::new(), Vec::new());
        argument(&mut marker, b"1 r 5 1 1 0 c");
        write(&mut out, &Entry::new(Vec::new(), b"k", b"token"), &marker);
        let out = String::from_utf8(out).expect("text");
        out.replace("\r\n", "|")
    }

    #[test]
    fn the_commands_are_what_the_servers_read() {
        let tail = "|$1|3|$1|k|$16|shearline:marker|$17|shearline:barrier|$5|token|";
        let second = Duration::from_secs(1);
        assert_eq!(
            shown(|out, entry, marker| set(out, entry, second, marker, Dialect::Sha1)),
            alloc::format!(
                "*9|$7|EVALSHA|$40|{}{tail}$4|1000|$13|1 r 5 1 1 0 c|",
                CHECKED_ACQUIRE.sha1
            )
        );
        assert_eq!(
            shown(|out, entry, marker| extend(out, entry, second, marker, Dialect::Sha1)),
            alloc::format!(
                "*9|$7|EVALSHA|$40|{}{tail}$4|1000|$13|1 r 5 1 1 0 c|",
                CHECKED_EXTEND.sha1
            )
        );
        let text = CHECKED_CONFIRM.text;
        assert_eq!(
            shown(confirm),
            alloc::format!("*8|$4|EVAL|${}|{text}{tail}$13|1 r 5 1 1 0 c|", text.len())
        );
    }

    #[test]
    fn no_command_is_longer_than_its_limit() {
        let longest = Entry::new(
            Vec::new(),
            &[b'k'; RESOURCE_BYTES_MAX],
            &[b't'; TOKEN_BYTES_MAX],
        );
        let (mut out, mut marker) = (Vec::new(), Vec::new());
        argument(&mut marker, &[b'm'; super::super::marker::MARKER_BYTES_MAX]);
        extend(&mut out, &longest, Duration::MAX, &marker, Dialect::Text);
        assert!(out.len() <= COMMAND_BYTES_MAX, "{}", out.len());
    }
}
