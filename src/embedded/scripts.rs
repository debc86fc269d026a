//! The scripts of this library, and the commands around them.
//!
//! There is no interpreter: each script is a function that does what its text says, even for
//! arguments that the library never sends.

mod fencing;
mod members;
mod number;
mod several;

use alloc::format;
use alloc::vec::Vec;

use crate::node::{
    CHECKED_ACQUIRE, CHECKED_CONFIRM, CHECKED_EXTEND, CONFIRM, CONFIRM_MEMBER, CONFIRM_SEVERAL,
    COUNT_COUNTERS, EXTEND, EXTEND_EACH, EXTEND_MEMBER, EXTEND_SEVERAL, INSPECT, JOIN,
    LEAVE_INTENT, LOOK_AT_FLOOR, MOVE_SLOT, OVERWRITE, RAISE_FENCED, RAISE_MEMBER, RELEASE,
    RELEASE_EACH, RELEASE_MEMBER, RELEASE_SEVERAL, REPAIR_FLOOR, SET_FLOOR, SET_IF_PERMITTED,
    Script, TAKE_FENCED, TAKE_SEVERAL, TAKE_SHARED, TAKE_SHARED_FENCED, TAKE_SLOT,
    TAKE_SLOT_FENCED,
};

use number::lua_number;

use super::call::{Call, flags, integer, is_flush_mode, ok};
use super::flavour::Flavour;
use super::keyspace::{Database, Entry, Members, Millis, Value};
use super::known::Scripts;
use super::refusal::Refusal;
use super::reply::{Answer, Reply};
use super::state::State;
use super::strings::{expiry, set_in};

const NO_KEY: Refusal =
    Refusal::fixed("ERR Lua redis lib command arguments must be strings or integers");
const NO_NUMBER: Refusal = Refusal::fixed("ERR user_script:1: attempt to compare number with nil");

const FOREIGN: Refusal = Refusal::fixed(
    "ERR this embedded node runs only the scripts of shearline; use a redis-server for others",
);

/// A script that the node knows, and what it does.
struct Known {
    script: &'static Script,
    run: Run,
}

type Run = fn(&mut Database<'_>, Millis, &Arguments<'_>) -> Answer;

/// All that the node knows. [`Scripts`] names them by their places.
static KNOWN: [Known; 32] = [
    Known::new(&RELEASE, |database, now, arguments| {
        release(database, now, arguments).map(Reply::Integer)
    }),
    Known::new(&RELEASE_EACH, release_each),
    Known::new(&EXTEND, |database, now, arguments| {
        extend(database, now, arguments).map(Reply::Integer)
    }),
    Known::new(&EXTEND_EACH, extend_each),
    Known::new(&CONFIRM, |database, now, arguments| {
        confirm(database, now, arguments).map(Reply::Integer)
    }),
    Known::new(&CHECKED_ACQUIRE, |database, now, arguments| {
        marker_checked(database, now, arguments, 2, acquire)
    }),
    Known::new(&CHECKED_EXTEND, |database, now, arguments| {
        marker_checked(database, now, arguments, 2, extend)
    }),
    Known::new(&CHECKED_CONFIRM, |database, now, arguments| {
        marker_checked(database, now, arguments, 1, confirm)
    }),
    Known::new(&INSPECT, inspect),
    Known::new(&OVERWRITE, overwrite),
    Known::new(&JOIN, join),
    Known::new(&SET_IF_PERMITTED, first_set),
    Known::new(&TAKE_SEVERAL, several::take),
    Known::new(&EXTEND_SEVERAL, several::extend),
    Known::new(&CONFIRM_SEVERAL, several::confirm),
    Known::new(&RELEASE_SEVERAL, several::release),
    Known::new(&TAKE_SHARED, members::take_shared),
    Known::new(&LEAVE_INTENT, members::leave_intent),
    Known::new(&TAKE_SLOT, members::take_slot),
    Known::new(&MOVE_SLOT, members::move_slot),
    Known::new(&EXTEND_MEMBER, members::extend),
    Known::new(&CONFIRM_MEMBER, members::confirm),
    Known::new(&RELEASE_MEMBER, members::release),
    Known::new(&TAKE_SHARED_FENCED, members::take_shared_fenced),
    Known::new(&TAKE_SLOT_FENCED, members::take_slot_fenced),
    Known::new(&RAISE_MEMBER, members::raise),
    Known::new(&TAKE_FENCED, fencing::take),
    Known::new(&RAISE_FENCED, fencing::raise),
    Known::new(&SET_FLOOR, fencing::floor),
    Known::new(&LOOK_AT_FLOOR, fencing::look_at_floor),
    Known::new(&REPAIR_FLOOR, fencing::repair_floor),
    Known::new(&COUNT_COUNTERS, fencing::count_counters),
];

impl Known {
    const fn new(script: &'static Script, run: Run) -> Self {
        Self { script, run }
    }
}

/// Returns the place of the script with this text.
fn by_text(text: &[u8]) -> Result<usize, Refusal> {
    let mut all = KNOWN.iter();
    all.position(|known| known.script.text.as_bytes() == text)
        .ok_or(FOREIGN)
}

/// Returns the place of the script with this digest, if the node was given it.
fn given(scripts: Scripts, digest: &[u8]) -> Option<usize> {
    let mut all = KNOWN.iter();
    all.position(|known| digest.eq_ignore_ascii_case(known.script.sha1.as_bytes()))
        .filter(|place| scripts.contains(*place))
}

/// `SCRIPT LOAD text`.
pub(super) fn load(state: &mut State, call: &mut Call<'_>) -> Answer {
    let place = by_text(call.words[2])?;
    state.scripts.insert(place);
    Ok(Reply::bulk(KNOWN[place].script.sha1.as_bytes()))
}

/// `SCRIPT EXISTS digest ...`.
pub(super) fn exists(state: &mut State, call: &mut Call<'_>) -> Answer {
    let digests = call.words_from(2).iter();
    Ok(flags(
        digests.map(|digest| given(state.scripts, digest).is_some()),
    ))
}

/// `SCRIPT FLUSH [ASYNC|SYNC]`.
pub(super) fn flush(state: &mut State, call: &mut Call<'_>) -> Answer {
    match call.words_from(2) {
        [] => (),
        [mode] if is_flush_mode(mode) => (),
        _ => {
            let line = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
            return Err(Refusal::fixed(line));
        }
    }
    state.scripts = Scripts::default();
    Ok(ok())
}

/// `EVAL text numkeys key ... argument ...`.
pub(super) fn eval(state: &mut State, call: &mut Call<'_>) -> Answer {
    let arguments = Arguments::parse(call, state.flavour)?;
    let place = by_text(call.words[1])?;
    state.scripts.insert(place);
    run(place, &mut call.database(state), call.now, &arguments)
}

/// `EVALSHA digest numkeys key ... argument ...`.
pub(super) fn evalsha(state: &mut State, call: &mut Call<'_>) -> Answer {
    // A word that cannot be a digest is refused before the other arguments are read.
    if call.words[1].len() != RELEASE.sha1.len() {
        return Err(Refusal::NO_SCRIPT);
    }
    let arguments = Arguments::parse(call, state.flavour)?;
    let place = given(state.scripts, call.words[1]).ok_or(Refusal::NO_SCRIPT)?;
    run(place, &mut call.database(state), call.now, &arguments)
}

/// The arguments that the scripts read: `KEYS[1]`, `ARGV[1]` and `ARGV[2]`, each of which may be missing, and all of
/// them in order.
struct Arguments<'a> {
    key: Option<&'a [u8]>,
    token: Option<&'a [u8]>,
    ttl: Option<&'a [u8]>,
    keys: &'a [&'a [u8]],
    rest: &'a [&'a [u8]],
    flavour: Flavour,
}

impl<'a> Arguments<'a> {
    fn parse(call: &Call<'a>, flavour: Flavour) -> Result<Self, Refusal> {
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
            flavour,
        })
    }

    /// Does what `redis.call('get',key)` does.
    fn read<'d>(
        &self,
        database: &'d mut Database<'_>,
        now: Millis,
        key: &[u8],
    ) -> Result<Option<&'d [u8]>, Refusal> {
        database.entry(key, now);
        self.register(database, key);
        database.text(key, now)
    }

    /// Does what commands do that only read the members of `key`.
    fn members(
        &self,
        database: &mut Database<'_>,
        now: Millis,
        key: &[u8],
    ) -> Result<Members, Refusal> {
        database.entry(key, now);
        self.register(database, key);
        database.members(key, now)
    }

    /// Does what `redis.call('pttl',key)` does, where there is no key or `None`.
    fn left(&self, database: &mut Database<'_>, now: Millis, key: &[u8]) -> Option<i64> {
        let left = database.entry(key, now).map(|entry| entry.pttl(now));
        self.register(database, key);
        left
    }

    /// Registers what a script has read: Redis takes all keys of the script for read, then.
    fn register(&self, database: &mut Database<'_>, key: &[u8]) {
        match self.flavour {
            Flavour::Redis | Flavour::Redis84 | Flavour::Proxied => {
                self.keys.iter().for_each(|key| database.register(key))
            }
            Flavour::Valkey | Flavour::Valkey81 | Flavour::Valkey91 => database.register(key),
        }
    }
}

fn run(
    place: usize,
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let Known { script, run } = &KNOWN[place];
    run(database, now, arguments).map_err(|refusal| refusal.in_script(script.sha1))
}

type Plain = fn(&mut Database<'_>, Millis, &Arguments<'_>) -> Result<i64, Refusal>;

/// Runs `plain` and then the marker check. Returns the answer of `plain` and whether it counts. The
/// marker is argument number `marker`, counted from 0.
fn marker_checked(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
    marker: usize,
    plain: Plain,
) -> Answer {
    let said = plain(database, now, arguments)?;
    let counts = counts(database, now, arguments, marker)?;
    Ok(Reply::array([said, counts].map(Reply::Integer)))
}

/// Does what every script with a marker check does at its end.
fn counts(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
    marker: usize,
) -> Result<i64, Refusal> {
    let marker_key = arguments.keys.get(1).ok_or(NO_KEY)?;
    let wanted = arguments.rest.get(marker).copied();
    let marker = arguments.read(database, now, marker_key);
    let same = matches!(marker, Ok(Some(text)) if Some(text) == wanted);
    let barrier_key = arguments.keys.get(2).ok_or(NO_KEY)?;
    let barrier = arguments.left(database, now, barrier_key);
    Ok(match same {
        true => barrier_left(barrier),
        false => -1,
    })
}

/// Returns how many milliseconds a script reports for a barrier with this time to live.
fn barrier_left(barrier: Option<i64>) -> i64 {
    match barrier {
        None => 0,
        Some(-1) => 1000,
        Some(left) => left.saturating_add(1),
    }
}

/// `SET NX PX`. Returns 1 if the key was set, otherwise 0.
fn acquire(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    let (Some(token), Some(ttl)) = (arguments.token, arguments.ttl) else {
        return Err(NO_KEY);
    };
    let words: [&[u8]; 3] = [b"nx", b"px", ttl];
    let set = set_in(database, now, key, token, &words)?;
    Ok(i64::from(set != Reply::Null))
}

/// Does what [`SET_IF_PERMITTED`] does for a user who may do everything.
fn first_set(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    match arguments.ttl.is_some_and(<[u8]>::is_empty) {
        true => Ok(Reply::Integer(0)),
        false => acquire(database, now, arguments).map(Reply::Integer),
    }
}

fn insert(database: &mut Database<'_>, key: &[u8], text: &[u8], end: Option<Millis>) {
    let value = Value::Text(text.to_vec());
    database.insert(key, Entry { value, end });
}

/// Does what [`JOIN`] does on a node that has no replica and was none.
fn join(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let (&[marker_key, barrier_key], &[run_id, ttl, nodes, quorum, cluster, durable, span, mode]) =
        (arguments.keys, arguments.rest)
    else {
        return Err(NO_KEY);
    };
    let marker = arguments
        .read(database, now, marker_key)?
        .map(<[u8]>::to_vec);
    let barrier = arguments.left(database, now, barrier_key);
    let mut left = barrier_left(barrier);
    let own = lua_number(ttl).ok_or(NO_NUMBER)?;
    let span = lua_number(span).ok_or(NO_NUMBER)?;
    let reinit = mode == b"anew";
    let (mut told, mut longest, mut lost, mut kept) = (own, own, true, durable == b"1");
    if let Some(marker) = &marker {
        let old = read_marker(marker);
        let same = old
            .as_ref()
            .is_some_and(|old| (old.nodes, old.quorum, old.cluster) == (nodes, quorum, cluster));
        if !same && !reinit {
            return Ok(joined(0, left, marker));
        }
        let old_ttl = old.as_ref().and_then(|old| lua_number(old.ttl));
        let old_ttl = old_ttl.unwrap_or_default();
        longest = own.max(old_ttl);
        if let Some(old) = old.filter(|_| !reinit) {
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

fn joined(verdict: i64, left: i64, marker: &[u8]) -> Reply {
    Reply::array([
        Reply::Integer(verdict),
        Reply::Integer(left),
        Reply::bulk(marker),
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

/// Does what [`RELEASE`] does.
fn release(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    match arguments.read(database, now, key)? {
        None => Ok(0),
        value if value == arguments.token => Ok(i64::from(database.remove(key, now))),
        Some(_) => Ok(-1),
    }
}

/// Does what [`RELEASE_EACH`] does.
fn release_each(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let mut said = Vec::with_capacity(arguments.keys.len());
    for (index, key) in arguments.keys.iter().enumerate() {
        let of_key = Arguments {
            key: Some(key),
            token: arguments.rest.get(index).copied(),
            ..*arguments
        };
        said.push(release(database, now, &of_key).map_or_else(Reply::Error, Reply::Integer));
    }
    Ok(Reply::array(said))
}

/// Does what [`EXTEND`] does.
fn extend(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    let value = arguments.read(database, now, key)?;
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
            database.set_end(key, now, expiry(ttl, now)?);
            database.register(key);
        }
    }
    Ok(1)
}

/// Does what [`EXTEND_EACH`] does.
fn extend_each(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let mut said = Vec::with_capacity(arguments.keys.len());
    for (index, key) in arguments.keys.iter().enumerate() {
        let of_key = Arguments {
            key: Some(key),
            token: arguments.rest.get(2 * index).copied(),
            ttl: arguments.rest.get(2 * index + 1).copied(),
            ..*arguments
        };
        said.push(match extend(database, now, &of_key) {
            Ok(said) => Reply::Integer(said),
            Err(refusal) if refusal == NO_NUMBER => return Err(refusal), // No command was refused.
            Err(refusal) => Reply::Error(refusal),
        });
    }
    Ok(Reply::array(said))
}

/// Does what [`CONFIRM`] does.
fn confirm(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    let value = arguments.read(database, now, key)?;
    if value.is_none() || value != arguments.token {
        return Ok(if value.is_none() { 0 } else { -1 });
    }
    Ok(above_left(database, now, key))
}

/// Returns one more than the milliseconds that `key`, which is there, lives on.
fn above_left(database: &mut Database<'_>, now: Millis, key: &[u8]) -> i64 {
    let left = database.entry(key, now).map_or(-1, |entry| entry.pttl(now));
    // Lua counts in doubles.
    match left < 0 {
        true => 9_000_000_000_000_001,
        false => (left as f64 + 1.0) as i64,
    }
}

/// Does what [`OVERWRITE`] does.
fn overwrite(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let key = arguments.key.ok_or(NO_KEY)?;
    let value = arguments.read(database, now, key)?.map(<[u8]>::to_vec);
    let other = arguments.ttl; // The second argument.
    let Some(value) = value.as_deref() else {
        return Ok(Reply::Integer(0));
    };
    let left = database.entry(key, now).map_or(-1, |entry| entry.pttl(now));
    if (Some(value) != arguments.token && Some(value) != other) || left < 0 {
        return Ok(Reply::Integer(-1));
    }
    let above = above_left(database, now, key);
    set_in(
        database,
        now,
        key,
        other.ok_or(NO_KEY)?,
        &[b"xx", b"keepttl"],
    )?;
    Ok(Reply::Integer(above))
}

/// Does what [`INSPECT`] does.
fn inspect(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let key = arguments.key.ok_or(NO_KEY)?;
    let (above, found) = match arguments.read(database, now, key) {
        Ok(None) => (0, Reply::bulk(b"")),
        Ok(Some(token)) => {
            let token = Reply::bulk(&token[..token.len().min(85)]);
            (above_left(database, now, key), token)
        }
        Err(refusal) => members::listed(database, now, arguments, key).ok_or(refusal)?,
    };
    let counts = match arguments.keys.len() {
        1 => 0,
        _ => counts(database, now, arguments, 0)?,
    };
    let (above, counts) = (Reply::Integer(above), Reply::Integer(counts));
    Ok(Reply::array([above, counts, found]))
}
