//! The commands that a client sends about itself: `CLIENT ..`.
//!
//! Not here: which keys are registered for which client, and the pushes. They are in `tracking`.

use super::call::{Call, ok};
use super::refusal::Refusal;
use super::reply::Answer;
use super::state::State;

/// `CLIENT SETNAME`, `CLIENT SETINFO`: no command shows the name or the info.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the table has one type of command"
)]
pub(super) fn describe(_: &mut State, _: &mut Call<'_>) -> Answer {
    Ok(ok())
}

/// `CLIENT TRACKING ON OPTIN NOLOOP`, `CLIENT TRACKING OFF`.
///
/// Without RESP3 it is accepted as well, and no push is ever sent. The servers do the same.
pub(super) fn tracking(state: &mut State, call: &mut Call<'_>) -> Answer {
    const OTHER_WAY: Refusal = Refusal::fixed(
        "ERR this embedded node tracks only with OPTIN and NOLOOP; use a redis-server for others",
    );
    let is = |place: usize, name: &[u8]| call.words[place].eq_ignore_ascii_case(name);
    let on = match call.words.len() {
        3 if is(2, b"off") => false,
        5 if is(2, b"on") && is(3, b"optin") && is(4, b"noloop") => true,
        _ => return Err(OTHER_WAY),
    };
    call.session.tracking = on;
    call.session.caching &= on;
    state.tracking.update(call.session);
    Ok(ok())
}

/// `CLIENT CACHING YES`: registers the keys that the next command reads. Other `CLIENT` commands may come in between.
pub(super) fn caching(_: &mut State, call: &mut Call<'_>) -> Answer {
    const NOT_ON: Refusal = Refusal::fixed("ERR CLIENT CACHING without CLIENT TRACKING ON OPTIN");
    if !call.session.tracking {
        return Err(NOT_ON);
    }
    if !call.words[2].eq_ignore_ascii_case(b"yes") {
        return Err(Refusal::SYNTAX);
    }
    call.session.caching = true;
    Ok(ok())
}
