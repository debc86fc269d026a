//! The scripts of this library, and the commands around them.
//!
//! There is no interpreter: each script is a function that does what its text says, including what
//! becomes of arguments that the library would never send.

use alloc::format;
use alloc::vec::Vec;

use crate::node::{
    CONFIRM, EXTEND, FENCED_ACQUIRE, FENCED_CONFIRM, FENCED_EXTEND, JOIN, RELEASE,
    SET_IF_PERMITTED, Script,
};
use crate::resp::OwnedValue;

use super::commands::{Call, flags, integer, is_flush_mode, ok};
use super::keyspace::{Database, Entry, Millis, Value};
use super::refusal::{Answer, Refusal};
use super::store::Store;
use super::strings::expiry;

const FOREIGN: Refusal = Refusal::fixed(
    "ERR this embedded node runs only the scripts of shearline; use a redis-server for others",
);
const NO_KEY: Refusal =
    Refusal::fixed("ERR Lua redis lib command arguments must be strings or integers");
const NO_NUMBER: Refusal = Refusal::fixed("ERR user_script:1: attempt to compare number with nil");

/// Which scripts the node was given since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scripts {
    release: bool,
    extend: bool,
    confirm: bool,
    fenced_acquire: bool,
    fenced_extend: bool,
    fenced_confirm: bool,
    join: bool,
    first_set: bool,
}

#[derive(Clone, Copy)]
enum Known {
    Release,
    Extend,
    Confirm,
    FencedAcquire,
    FencedExtend,
    FencedConfirm,
    Join,
    FirstSet,
}

impl Known {
    const ALL: [Self; 8] = [
        Self::Release,
        Self::Extend,
        Self::Confirm,
        Self::FencedAcquire,
        Self::FencedExtend,
        Self::FencedConfirm,
        Self::Join,
        Self::FirstSet,
    ];

    const fn script(self) -> &'static Script {
        match self {
            Self::Release => &RELEASE,
            Self::Extend => &EXTEND,
            Self::Confirm => &CONFIRM,
            Self::FencedAcquire => &FENCED_ACQUIRE,
            Self::FencedExtend => &FENCED_EXTEND,
            Self::FencedConfirm => &FENCED_CONFIRM,
            Self::Join => &JOIN,
            Self::FirstSet => &SET_IF_PERMITTED,
        }
    }

    const fn text(self) -> &'static str {
        self.script().text
    }

    const fn digest(self) -> &'static str {
        self.script().sha1
    }

    fn by_text(text: &[u8]) -> Result<Self, Refusal> {
        let mut all = Self::ALL.into_iter();
        all.find(|known| known.text().as_bytes() == text)
            .ok_or(FOREIGN)
    }

    fn by_digest(digest: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|known| digest.eq_ignore_ascii_case(known.digest().as_bytes()))
    }
}

impl Scripts {
    fn slot(&mut self, known: Known) -> &mut bool {
        match known {
            Known::Release => &mut self.release,
            Known::Extend => &mut self.extend,
            Known::Confirm => &mut self.confirm,
            Known::FencedAcquire => &mut self.fenced_acquire,
            Known::FencedExtend => &mut self.fenced_extend,
            Known::FencedConfirm => &mut self.fenced_confirm,
            Known::Join => &mut self.join,
            Known::FirstSet => &mut self.first_set,
        }
    }

    fn has(&mut self, digest: &[u8]) -> Option<Known> {
        Known::by_digest(digest).filter(|known| *self.slot(*known))
    }
}

/// `SCRIPT LOAD text`.
pub(super) fn load(store: &mut Store, call: &mut Call<'_>) -> Answer {
    let known = Known::by_text(call.words[2])?;
    *store.scripts.slot(known) = true;
    Ok(OwnedValue::bulk(known.digest().as_bytes()))
}

/// `SCRIPT EXISTS digest ...`.
pub(super) fn exists(store: &mut Store, call: &mut Call<'_>) -> Answer {
    let digests = call.words_from(2).iter();
    Ok(flags(
        digests.map(|digest| store.scripts.has(digest).is_some()),
    ))
}

/// `SCRIPT FLUSH [ASYNC|SYNC]`.
pub(super) fn flush(store: &mut Store, call: &mut Call<'_>) -> Answer {
    match call.words_from(2) {
        [] => (),
        [mode] if is_flush_mode(mode) => (),
        _ => {
            let line = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
            return Err(Refusal::fixed(line));
        }
    }
    store.scripts = Scripts::default();
    Ok(ok())
}

/// `EVAL text numkeys key ... argument ...`.
pub(super) fn eval(store: &mut Store, call: &mut Call<'_>) -> Answer {
    let arguments = Arguments::parse(call)?;
    let known = Known::by_text(call.words[1])?;
    *store.scripts.slot(known) = true;
    run(known, call.database(store), call.now, &arguments)
}

/// `EVALSHA digest numkeys key ... argument ...`.
pub(super) fn evalsha(store: &mut Store, call: &mut Call<'_>) -> Answer {
    // What cannot be a digest is seen before the other arguments are looked at.
    if call.words[1].len() != RELEASE.sha1.len() {
        return Err(Refusal::NO_SCRIPT);
    }
    let arguments = Arguments::parse(call)?;
    let known = store.scripts.has(call.words[1]).ok_or(Refusal::NO_SCRIPT)?;
    run(known, call.database(store), call.now, &arguments)
}

/// What the scripts look at: `KEYS[1]`, `ARGV[1]`, `ARGV[2]`, of which each may be missing, and all
/// of them in their order.
struct Arguments<'a> {
    key: Option<&'a [u8]>,
    token: Option<&'a [u8]>,
    ttl: Option<&'a [u8]>,
    keys: &'a [&'a [u8]],
    rest: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, Refusal> {
        const NEGATIVE: Refusal = Refusal::fixed("ERR Number of keys can't be negative");
        const TOO_MANY: Refusal =
            Refusal::fixed("ERR Number of keys can't be greater than number of args");
        let all = call.words_from(3);
        let keys = integer(call.words[2])?;
        let keys = usize::try_from(keys).map_err(|_| NEGATIVE)?;
        let (keys, arguments) = all.split_at_checked(keys).ok_or(TOO_MANY)?;
        Ok(Self {
            key: keys.first().copied(),
            token: arguments.first().copied(),
            ttl: arguments.get(1).copied(),
            keys,
            rest: arguments,
        })
    }
}

fn run(known: Known, database: &mut Database, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let result = match known {
        Known::Release => release(database, now, arguments).map(OwnedValue::Integer),
        Known::Extend => extend(database, now, arguments).map(OwnedValue::Integer),
        Known::Confirm => confirm(database, now, arguments).map(OwnedValue::Integer),
        Known::FencedAcquire => fenced(database, now, arguments, 2, acquire),
        Known::FencedExtend => fenced(database, now, arguments, 2, extend),
        Known::FencedConfirm => fenced(database, now, arguments, 1, confirm),
        Known::Join => join(database, now, arguments),
        // Its one user may do everything.
        Known::FirstSet if arguments.ttl.is_some_and(<[u8]>::is_empty) => {
            Ok(OwnedValue::Integer(0))
        }
        Known::FirstSet => acquire(database, now, arguments).map(OwnedValue::Integer),
    };
    result.map_err(|refusal| refusal.in_script(known.digest()))
}

type Plain = fn(&mut Database, Millis, &Arguments<'_>) -> Result<i64, Refusal>;

/// What the three fenced ones say: `plain`, and then whether it counts. The marker is the argument
/// of this number, counted from 0.
fn fenced(
    database: &mut Database,
    now: Millis,
    arguments: &Arguments<'_>,
    marker: usize,
    plain: Plain,
) -> Answer {
    let said = plain(database, now, arguments)?;
    let [_, marker_key, barrier_key] = arguments.keys else {
        return Err(NO_KEY);
    };
    let wanted = arguments.rest.get(marker).copied();
    let same = matches!(database.text(marker_key, now), Ok(Some(text)) if Some(text) == wanted);
    let barrier = database
        .entry(barrier_key, now)
        .map(|entry| entry.pttl(now));
    let left = match same {
        true => barrier_left(barrier),
        false => -1,
    };
    Ok(OwnedValue::array([said, left].map(OwnedValue::Integer)))
}

/// What a barrier with this time to live is told as.
fn barrier_left(barrier: Option<i64>) -> i64 {
    match barrier {
        None => 0,
        Some(-1) => 1000,
        Some(left) => left.saturating_add(1),
    }
}

/// `SET NX PX`, as a script tells it.
fn acquire(
    database: &mut Database,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    let (Some(token), Some(ttl)) = (arguments.token, arguments.ttl) else {
        return Err(NO_KEY);
    };
    let words: [&[u8]; 3] = [b"nx", b"px", ttl];
    let set = super::strings::set_in(database, now, key, token, &words)?;
    Ok(i64::from(set != OwnedValue::Null))
}

fn insert(database: &mut Database, key: &[u8], text: &[u8], end: Option<Millis>) {
    let value = Value::Text(text.to_vec());
    database.insert(key, Entry { value, end });
}

/// What [`JOIN`] says of a node that has no replica and was none.
fn join(database: &mut Database, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let (&[marker_key, barrier_key], &[run_id, ttl, nodes, quorum, cluster, durable, span, mode]) =
        (arguments.keys, arguments.rest)
    else {
        return Err(NO_KEY);
    };
    let marker = database.text(marker_key, now)?.map(<[u8]>::to_vec);
    let barrier = database
        .entry(barrier_key, now)
        .map(|entry| entry.pttl(now));
    let mut left = barrier_left(barrier);
    let own = lua_number(ttl).ok_or(NO_NUMBER)?;
    let span = lua_number(span).ok_or(NO_NUMBER)?;
    let anew = mode == b"anew";
    let (mut told, mut longest, mut lost, mut kept) = (own, own, true, durable == b"1");
    if let Some(marker) = &marker {
        let old = read_marker(marker);
        let same = old
            .as_ref()
            .is_some_and(|old| (old.nodes, old.quorum, old.cluster) == (nodes, quorum, cluster));
        if !same && !anew {
            return Ok(joined(0, left, marker));
        }
        let old_ttl = old.as_ref().and_then(|old| lua_number(old.ttl));
        let old_ttl = old_ttl.unwrap_or_default();
        longest = own.max(old_ttl);
        if let Some(old) = old.filter(|_| !anew) {
            if old.run_id == run_id {
                lost = own > old_ttl;
                kept = old.durable && durable != b"0";
            } else {
                lost = own > old_ttl || !old.durable || !kept;
            }
            told = longest;
        }
    }
    let words = [nodes, quorum, if kept { b"1" } else { b"0" }, cluster];
    let mut text = [b"1 ", run_id].concat();
    text.extend_from_slice(format!(" {told:.0}").as_bytes());
    for word in words {
        text.extend_from_slice(&[b" ", word].concat());
    }
    if mode == b"trust" {
        database.remove(barrier_key, now);
        left = 0;
    } else if lost {
        let bar = (span * longest / own).ceil() as i64;
        if barrier != Some(-1) && bar > left {
            insert(database, barrier_key, b"1", Some(now.saturating_add(bar)));
            left = bar;
        }
    }
    if marker.as_ref() != Some(&text) {
        insert(database, marker_key, &text, None);
    }
    Ok(joined(1, left, &text))
}

fn joined(verdict: i64, left: i64, marker: &[u8]) -> OwnedValue {
    OwnedValue::array([
        OwnedValue::Integer(verdict),
        OwnedValue::Integer(left),
        OwnedValue::bulk(marker),
    ])
}

/// What the pattern of [`JOIN`] finds in a marker.
struct Marker<'a> {
    run_id: &'a [u8],
    ttl: &'a [u8],
    nodes: &'a [u8],
    quorum: &'a [u8],
    durable: bool,
    cluster: &'a [u8],
}

fn read_marker(text: &[u8]) -> Option<Marker<'_>> {
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let &[b"1", run_id, ttl, nodes, quorum, durable, cluster] = words.as_slice() else {
        return None;
    };
    let numbers = [ttl, nodes, quorum];
    let whole = numbers
        .iter()
        .all(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
    let texts = [run_id, cluster]
        .iter()
        .all(|text| !text.is_empty() && !text.iter().any(u8::is_ascii_whitespace));
    (whole && texts && [b"0", b"1"].iter().any(|flag| *flag == durable)).then_some(Marker {
        run_id,
        ttl,
        nodes,
        quorum,
        durable: durable == b"1",
        cluster,
    })
}

/// What [`RELEASE`] says.
fn release(
    database: &mut Database,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    match database.text(key, now)? {
        None => Ok(0),
        value if value == arguments.token => Ok(i64::from(database.remove(key, now))),
        Some(_) => Ok(-1),
    }
}

/// What [`EXTEND`] says.
fn extend(database: &mut Database, now: Millis, arguments: &Arguments<'_>) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    let value = database.text(key, now)?;
    if value.is_none() || value != arguments.token {
        return Ok(if value.is_none() { 0 } else { -1 });
    }
    let Some(entry) = database.entry(key, now) else {
        return Ok(0);
    };
    let left = entry.pttl(now);
    if left >= 0 {
        let ttl = arguments.ttl.unwrap_or_default();
        // Lua counts in doubles.
        if (left as f64) < lua_number(ttl).ok_or(NO_NUMBER)? {
            entry.end = Some(expiry(ttl, now)?);
        }
    }
    Ok(1)
}

/// What [`CONFIRM`] says.
fn confirm(
    database: &mut Database,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    let value = database.text(key, now)?;
    if value.is_none() || value != arguments.token {
        return Ok(if value.is_none() { 0 } else { -1 });
    }
    let left = database.entry(key, now).map_or(-1, |entry| entry.pttl(now));
    // Lua counts in doubles.
    Ok(match left < 0 {
        true => 9_000_000_000_000_001,
        false => (left as f64 + 1.0) as i64,
    })
}

/// Lua's `tonumber`, but for hexadecimal numbers.
fn lua_number(text: &[u8]) -> Option<f64> {
    core::str::from_utf8(text).ok()?.trim_ascii().parse().ok()
}
