//! The commands that a client sends about itself: `CLIENT ..`.
//!
//! Not here: which keys are registered for whom, and what is pushed. That is in `tracking`.

use super::call::{Call, ok};
use super::refusal::Refusal;
use super::reply::{Answer, Reply};
use super::state::State;

pub(super) fn getname(_: &mut State, call: &mut Call<'_>) -> Answer {
    Ok(match call.session.name.as_slice() {
        [] => Reply::Null,
        name => Reply::bulk(name),
    })
}

pub(super) fn id(_: &mut State, call: &mut Call<'_>) -> Answer {
    Ok(Reply::Integer(call.session.id.cast_signed()))
}

pub(super) fn setinfo(_: &mut State, _: &mut Call<'_>) -> Answer {
    Ok(ok())
}

pub(super) fn setname(_: &mut State, call: &mut Call<'_>) -> Answer {
    call.session.name = valid_name(call.words[2])?.to_vec();
    Ok(ok())
}

pub(super) fn valid_name(name: &[u8]) -> Result<&[u8], Refusal> {
    const BAD_NAME: Refusal =
        Refusal::fixed("ERR Client names cannot contain spaces, newlines or special characters.");
    let good = name.iter().all(u8::is_ascii_graphic);
    if good { Ok(name) } else { Err(BAD_NAME) }
}

/// `CLIENT TRACKING ON OPTIN NOLOOP`, `CLIENT TRACKING OFF`.
///
/// Without RESP3 it is accepted as well, and no push is ever sent: so do the servers.
pub(super) fn tracking(state: &mut State, call: &mut Call<'_>) -> Answer {
    const OTHER_WAY: Refusal = Refusal::fixed(
        "ERR this embedded node tracks only with OPTIN and NOLOOP; use a redis-server for others",
    );
    let options = Options::parse(call.words_from(3))?;
    let on = switch(call.words[2])?;
    if on && options != Options::KNOWN {
        return Err(OTHER_WAY);
    }
    call.session.tracking = on;
    call.session.caching &= on;
    state.tracking.update(call.session);
    Ok(ok())
}

fn switch(word: &[u8]) -> Result<bool, Refusal> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(Refusal::SYNTAX),
    }
}

/// The options of `CLIENT TRACKING`. This node knows two of them.
#[derive(Default, Eq, PartialEq)]
struct Options {
    optin: bool,
    noloop: bool,
    other: bool,
}

impl Options {
    const KNOWN: Self = Self {
        optin: true,
        noloop: true,
        other: false,
    };

    fn parse(mut words: &[&[u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        while let Some((option, rest)) = words.split_first() {
            words = rest;
            match option.to_ascii_lowercase().as_slice() {
                b"optin" => options.optin = true,
                b"noloop" => options.noloop = true,
                b"optout" | b"bcast" => options.other = true,
                b"redirect" | b"prefix" if !rest.is_empty() => {
                    options.other = true;
                    words = &rest[1..];
                }
                _ => return Err(Refusal::SYNTAX),
            }
        }
        Ok(options)
    }
}

/// `CLIENT CACHING YES`: the keys that the next command reads are registered. Further commands of
/// `CLIENT` may stand between.
pub(super) fn caching(_: &mut State, call: &mut Call<'_>) -> Answer {
    const NOT_ON: Refusal = Refusal::fixed(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
         OPTOUT mode enabled",
    );
    const NOT_OPTOUT: Refusal = Refusal::fixed(
        "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
    );
    if !call.session.tracking {
        return Err(NOT_ON);
    }
    match call.words[2].to_ascii_lowercase().as_slice() {
        b"yes" => call.session.caching = true,
        b"no" => return Err(NOT_OPTOUT),
        _ => return Err(Refusal::SYNTAX),
    }
    Ok(ok())
}
