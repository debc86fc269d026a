//! The three scripts of this library, and the commands around them.
//!
//! There is no interpreter: each script is a function that does what its text says, including what
//! becomes of arguments that the library would never send.

use crate::node::{CONFIRM, EXTEND, RELEASE};
use crate::resp::OwnedValue;

use super::commands::{Call, flags, integer, is_flush_mode, ok};
use super::keyspace::{Database, Millis};
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
}

#[derive(Clone, Copy)]
enum Known {
    Release,
    Extend,
    Confirm,
}

impl Known {
    const ALL: [Self; 3] = [Self::Release, Self::Extend, Self::Confirm];

    const fn text(self) -> &'static str {
        match self {
            Self::Release => RELEASE.text,
            Self::Extend => EXTEND.text,
            Self::Confirm => CONFIRM.text,
        }
    }

    const fn digest(self) -> &'static str {
        match self {
            Self::Release => RELEASE.sha1,
            Self::Extend => EXTEND.sha1,
            Self::Confirm => CONFIRM.sha1,
        }
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

/// What the scripts look at: `KEYS[1]`, `ARGV[1]`, `ARGV[2]`, of which each may be missing.
struct Arguments<'a> {
    key: Option<&'a [u8]>,
    token: Option<&'a [u8]>,
    ttl: Option<&'a [u8]>,
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
        })
    }
}

fn run(known: Known, database: &mut Database, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let result = match known {
        Known::Release => release(database, now, arguments),
        Known::Extend => extend(database, now, arguments),
        Known::Confirm => confirm(database, now, arguments),
    };
    result
        .map(OwnedValue::Integer)
        .map_err(|refusal| refusal.in_script(known.digest()))
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
