//! The scripts of this library, and the commands that load and run scripts.
//!
//! The node has no interpreter: each script is a function that does the same as the script's Lua text, even for values
//! that the library never sends. The node refuses a script that gets fewer keys or arguments than the library sends.

mod fencing;
mod join;
mod members;
mod names;
mod steps;

use crate::node::{
    CHECKED_ACQUIRE, CHECKED_CONFIRM, CHECKED_EXTEND, CONFIRM, CONFIRM_MEMBER, CONFIRM_SEVERAL,
    COUNT_COUNTERS, EXTEND, EXTEND_EACH, EXTEND_MEMBER, EXTEND_SEVERAL, INSPECT, JOIN,
    LEAVE_INTENT, LIST_NAMES, LOOK_AT_FLOOR, MOVE_SLOT, OVERWRITE, RAISE_FENCED, RAISE_MEMBER,
    RELEASE, RELEASE_EACH, RELEASE_MEMBER, RELEASE_SEVERAL, REPAIR_FLOOR, SET_FLOOR,
    SET_IF_PERMITTED, Script, TAKE_FENCED, TAKE_SEVERAL, TAKE_SHARED, TAKE_SHARED_FENCED,
    TAKE_SLOT, TAKE_SLOT_FENCED,
};

use names::{acquire, confirm, extend, release};
use steps::{TOO_FEW, numbers};

use super::call::{Call, Words, integer, ok};
use super::refusal::Refusal;
use super::reply::{Answer, Reply};

const FOREIGN: Refusal = Refusal::fixed(
    "ERR this embedded node runs only the scripts of shearline; use a redis-server for others",
);

/// A script that the node knows, and the function that runs it for a user with all permissions.
struct Known {
    script: &'static Script,
    /// The smallest allowed numbers of keys and of arguments.
    least: [usize; 2],
    /// `true` if the script returns 0 for an empty ttl, so that a client can test whether its user may run the script.
    asks: bool,
    run: Run,
}

type Run = fn(&mut Call<'_>) -> Answer;

/// All scripts that the node knows.
static KNOWN: [Known; 33] = [
    Known::new(&RELEASE, [1, 1], |run| release(run).map(Reply::Integer)),
    Known::new(&RELEASE_EACH, [0, 0], names::release_each),
    Known::new(&EXTEND, [1, 2], |run| extend(run).map(Reply::Integer)),
    Known::new(&EXTEND_EACH, [0, 0], names::extend_each),
    Known::new(&CONFIRM, [1, 1], |run| confirm(run).map(Reply::Integer)),
    Known::new(&CHECKED_ACQUIRE, [3, 3], |run| checked(run, 2, acquire)),
    Known::new(&CHECKED_EXTEND, [3, 3], |run| checked(run, 2, extend)),
    Known::new(&CHECKED_CONFIRM, [3, 2], |run| checked(run, 1, confirm)),
    Known::new(&INSPECT, [1, 0], names::inspect),
    Known::new(&OVERWRITE, [1, 2], names::overwrite),
    Known::new(&JOIN, [2, 8], join::join),
    Known::asking(&SET_IF_PERMITTED, [1, 2], |run| {
        acquire(run).map(Reply::Integer)
    }),
    Known::asking(&TAKE_SEVERAL, [1, 3], names::take),
    Known::new(&EXTEND_SEVERAL, [1, 3], names::extend_several),
    Known::new(&CONFIRM_SEVERAL, [1, 3], names::confirm_several),
    Known::new(&RELEASE_SEVERAL, [1, 1], names::release_several),
    Known::asking(&TAKE_SHARED, [2, 4], members::take_shared),
    Known::new(&LEAVE_INTENT, [1, 2], members::leave_intent),
    Known::asking(&TAKE_SLOT, [1, 6], members::take_slot),
    Known::new(&MOVE_SLOT, [1, 4], members::move_slot),
    Known::new(&EXTEND_MEMBER, [1, 4], members::extend),
    Known::new(&CONFIRM_MEMBER, [1, 4], members::confirm),
    Known::new(&RELEASE_MEMBER, [1, 2], members::release),
    Known::asking(&TAKE_SHARED_FENCED, [4, 7], members::take_shared_fenced),
    Known::asking(&TAKE_SLOT_FENCED, [3, 9], members::take_slot_fenced),
    Known::new(&RAISE_MEMBER, [3, 7], members::raise),
    Known::new(&TAKE_FENCED, [3, 6], fencing::take),
    Known::new(&RAISE_FENCED, [3, 6], fencing::raise),
    Known::new(&SET_FLOOR, [1, 3], fencing::floor),
    Known::new(&LOOK_AT_FLOOR, [1, 2], fencing::look_at_floor),
    Known::new(&REPAIR_FLOOR, [1, 3], fencing::repair_floor),
    Known::new(&COUNT_COUNTERS, [0, 1], fencing::count_counters),
    Known::new(&LIST_NAMES, [0, 2], fencing::list_names),
];

impl Known {
    const fn new(script: &'static Script, least: [usize; 2], run: Run) -> Self {
        Self {
            script,
            least,
            asks: false,
            run,
        }
    }

    const fn asking(script: &'static Script, least: [usize; 2], run: Run) -> Self {
        Self {
            asks: true,
            ..Self::new(script, least, run)
        }
    }

    fn run(&self, call: &mut Call<'_>, (keys, words): (Words<'_>, Words<'_>)) -> Answer {
        let [least_keys, least_words] = self.least;
        if keys.len() < least_keys || words.len() < least_words {
            return Err(TOO_FEW);
        }
        if self.asks && words[1].is_empty() {
            return Ok(Reply::Integer(0));
        }
        (self.run)(&mut call.within(keys, words))
    }
}

/// Returns the script with this text. From now on the node also knows the digest of the script.
fn by_text(call: &mut Call<'_>, text: &[u8]) -> Result<&'static Known, Refusal> {
    let mut all = KNOWN.iter();
    let known = all.find(|known| known.script.text.as_bytes() == text);
    let known = known.ok_or(FOREIGN)?;
    call.store.scripts.insert(known.script.sha1);
    Ok(known)
}

/// Returns the script with this digest, if a client has sent the script before.
fn by_digest(call: &Call<'_>, digest: &[u8]) -> Result<&'static Known, Refusal> {
    let mut all = KNOWN.iter();
    all.find(|known| digest.eq_ignore_ascii_case(known.script.sha1.as_bytes()))
        .filter(|known| call.store.scripts.contains(known.script.sha1))
        .ok_or(Refusal::NO_SCRIPT)
}

/// `SCRIPT LOAD text`.
pub(super) fn load(call: &mut Call<'_>) -> Answer {
    let known = by_text(call, call.words[2])?;
    Ok(Reply::bulk(known.script.sha1.as_bytes()))
}

/// `SCRIPT FLUSH`.
pub(super) fn flush(call: &mut Call<'_>) -> Answer {
    call.store.scripts.clear();
    Ok(ok())
}

/// `EVAL text numkeys key ... argument ...`.
pub(super) fn eval(call: &mut Call<'_>) -> Answer {
    let given = keys_and_words(call)?;
    by_text(call, call.words[1])?.run(call, given)
}

/// `EVALSHA digest numkeys key ... argument ...`.
pub(super) fn evalsha(call: &mut Call<'_>) -> Answer {
    // A word that cannot be a digest is refused before the other arguments are read.
    if call.words[1].len() != RELEASE.sha1.len() {
        return Err(Refusal::NO_SCRIPT);
    }
    let given = keys_and_words(call)?;
    by_digest(call, call.words[1])?.run(call, given)
}

/// Returns the keys, whose number comes first, and the arguments.
fn keys_and_words<'a>(call: &Call<'a>) -> Result<(Words<'a>, Words<'a>), Refusal> {
    const NO_COUNT: Refusal = Refusal::fixed("ERR Number of keys is negative or too large");
    let keys = usize::try_from(integer(call.words[2])?).map_err(|_| NO_COUNT)?;
    call.words_from(3).split_at_checked(keys).ok_or(NO_COUNT)
}

/// Runs `plain` and then the marker check. Returns the answer of `plain`, and whether the answer counts. The marker is
/// the argument at the index `marker`.
fn checked(
    run: &mut Call<'_>,
    marker: usize,
    plain: fn(&mut Call<'_>) -> Result<i64, Refusal>,
) -> Answer {
    let said = plain(run)?;
    let counts = run.counts(run.words[marker])?;
    numbers([said, counts])
}
