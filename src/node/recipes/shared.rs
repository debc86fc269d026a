//! The commands for a shared lock. Permits use some of these commands too.
//!
//! Each command contains the text of its script. A node that runs no scripts cannot grant shared locks. For the
//! scripts, see [`script::shared`](crate::node::script).

use alloc::vec::Vec;
use core::iter::{empty, once};
use core::time::Duration;

use crate::entry::{Entry, Kind};
use crate::node::request::Dialect;
use crate::node::script::{
    CONFIRM_MEMBER, EXTEND_MEMBER, LEAVE_INTENT, RELEASE_MEMBER, Script, TAKE_SHARED,
};
use crate::resource::INTENT_PREFIX;
use crate::resp::{Decimal, argument, command};

use super::{Filling, Form, Recipe, head, tail, to_ask};

pub(super) static RECIPE: Recipe = Recipe {
    take: |out, entry, filling| {
        let life = Decimal::millis(filling.life);
        take_if_permitted(out, entry, life.as_bytes(), filling);
    },
    release,
    extend,
    confirm,
    inspect: not_asked,
    overwrite: not_asked,
    move_slot: not_asked,
    ask: |out, entry, _| take_if_permitted(out, entry, b"", &Filling::TO_ASK),
    form: Form::Only,
};

/// The commands that the scripts run, in the order in which their permissions are checked.
pub(in crate::node) const TO_JOIN: [&str; 7] = [
    "time",
    "zrange",
    "zrem",
    "zadd",
    "pexpireat",
    "get",
    "zscore",
];

/// Returns the commands for which a script must check the user's permissions. A script that is sent by its digest has
/// run on the node before, so it need not check the permissions again.
pub(super) fn to_check(by: Dialect) -> &'static [&'static str] {
    match by {
        Dialect::Sha1 => &[],
        Dialect::Text
        | Dialect::TextOnly
        | Dialect::DelIfEq
        | Dialect::DelEx
        | Dialect::SetIfEq
        | Dialect::Watch => &TO_JOIN,
    }
}

/// Adds the reader. If the script is sent as text, it also checks whether the user may remove the reader. If the ttl is
/// empty, the command only checks permissions.
#[cold]
fn take_if_permitted(out: &mut Vec<u8>, entry: &Entry, ttl: &[u8], filling: &Filling<'_>) {
    let Filling { marker, by, .. } = *filling;
    let (script, commands) = ((&TAKE_SHARED, by), to_check(by));
    let intent = once([INTENT_PREFIX, entry.resource()]);
    head(out, script, entry, intent, marker, 3 + commands.len());
    tail(out, ttl, marker);
    argument(out, passes(entry));
    to_ask(out, commands);
}

/// Removes the member.
#[cold]
pub(super) fn release(out: &mut Vec<u8>, entry: &Entry, _by: Dialect) {
    let script = (&RELEASE_MEMBER, Dialect::TextOnly);
    head(out, script, entry, empty(), None, 1);
    argument(out, &prefix(entry));
}

/// Removes a permit's token from every slot except the permit's own.
#[cold]
pub(in crate::node) fn take_out(out: &mut Vec<u8>, entry: &Entry) {
    let script = (&RELEASE_MEMBER, Dialect::TextOnly);
    head(out, script, entry, empty(), None, 2);
    argument(out, &prefix(entry));
    argument(out, b"1");
}

#[cold]
pub(super) fn extend(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    let life = Decimal::millis(filling.life);
    question(out, &EXTEND_MEMBER, entry, life.as_bytes(), filling.marker);
}

#[cold]
pub(super) fn confirm(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    question(out, &CONFIRM_MEMBER, entry, b"", filling.marker);
}

/// Writes a command that runs `script` on the member of `entry`.
pub(super) fn question(
    out: &mut Vec<u8>,
    script: &Script,
    entry: &Entry,
    ttl: &[u8],
    marker: Option<&[u8]>,
) {
    let script = (script, Dialect::TextOnly);
    head(out, script, entry, empty(), marker, 3);
    tail(out, ttl, marker);
    argument(out, &prefix(entry));
}

/// Records on the node the intent of a caller that waits for the exclusive lock on `resource`. `age` is how long the
/// caller has waited. The intent expires after `life`.
#[cold]
pub(in crate::node) fn leave_intent(
    out: &mut Vec<u8>,
    resource: &[u8],
    [age, life]: [Duration; 2],
) {
    let (age, life) = (Decimal::millis(age), Decimal::millis(life));
    let script = [b"EVAL", LEAVE_INTENT.text.as_bytes(), b"1"];
    let words = [&intent(resource)[..], age.as_bytes(), life.as_bytes()];
    command(out, &[script, words].concat());
}

/// Removes the intent.
#[cold]
pub(in crate::node) fn end_intent(out: &mut Vec<u8>, resource: &[u8]) {
    command(out, &[b"DEL", &intent(resource)]);
}

fn intent(resource: &[u8]) -> Vec<u8> {
    [INTENT_PREFIX, resource].concat()
}

pub(super) fn not_asked(_: &mut Vec<u8>, _: &Entry, _: &Filling<'_>) {
    unreachable!("no such question is asked about this kind of lock");
}

/// Returns the text that precedes the token in a member.
pub(super) fn prefix(entry: &Entry) -> Vec<u8> {
    match entry.kind() {
        Kind::Plain | Kind::Shared => b"r/".to_vec(),
        Kind::Permit { permits, slot } => alloc::format!("{permits}/{slot}/").into_bytes(),
    }
}

/// Returns the argument that lets a reader join despite an intent, which is empty unless the reader already held the
/// lock.
pub(super) fn passes(entry: &Entry) -> &'static [u8] {
    match entry.ttl() == Duration::ZERO {
        true => b"",
        false => b"1",
    }
}

#[cfg(test)]
mod tests {
    use super::super::fenced;
    use super::*;
    use crate::node::request::Question;
    use crate::time::Instant;
    use alloc::string::String;

    const COMMANDS: &str = "time zrange zrem zadd pexpireat get zscore";

    /// Returns a command without the text of its script.
    fn shown(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        fenced::tests::shown(&out)
    }

    fn filling(marker: Option<&[u8]>) -> Filling<'_> {
        let (life, by) = (Duration::from_secs(10), Dialect::TextOnly);
        Filling { life, marker, by }
    }

    #[test]
    fn the_commands_are_what_the_servers_read() {
        let guard = "shearline:marker shearline:barrier";
        let reader = Entry::shared(Vec::new(), b"a\n", b"token", false);
        let mut holder = Entry::permit(Vec::new(), b"a\n", b"token", [12, 3], true);
        let mut marker = Vec::new();
        argument(&mut marker, b"m");
        // A command that takes a lock also lists the commands that its script runs.
        let expect = |entry: &Entry, marker: Option<&[u8]>, commands: [&str; 4]| {
            let filling = filling(marker);
            let ask =
                |question| shown(|out| super::super::question(out, question, entry, &filling));
            let shown = [
                shown(|out| super::super::take(out, entry, &filling)),
                ask(Question::Extend),
                ask(Question::Confirm),
                shown(|out| super::super::release(out, entry, Dialect::TextOnly)),
            ];
            let mut commands = commands.map(|command| command.replace("GUARD", guard));
            commands[0] += COMMANDS;
            assert_eq!(shown, commands);
        };
        expect(
            &reader,
            None,
            [
                r"EVAL 2 a\n shearline:intent:a\n token 10000   ",
                r"EVAL 1 a\n token 10000  r/",
                r"EVAL 1 a\n token   r/",
                r"EVAL 1 a\n token r/",
            ],
        );
        let held = Entry::shared(Vec::new(), b"a\n", b"token", false);
        held.set_end(Instant::MAX, Duration::from_secs(1));
        expect(
            &held,
            Some(&marker),
            [
                r"EVAL 4 a\n shearline:intent:a\n GUARD token 10000 m 1 ",
                r"EVAL 3 a\n GUARD token 10000 m r/",
                r"EVAL 3 a\n GUARD token  m r/",
                r"EVAL 1 a\n token r/",
            ],
        );
        expect(
            &holder,
            None,
            [
                r"EVAL 1 a\n token 10000  12 3 12 ",
                r"EVAL 1 a\n token 10000  12/3/",
                r"EVAL 1 a\n token   12/3/",
                r"EVAL 1 a\n token 12/3/",
            ],
        );
        holder.set_slot(11);
        expect(
            &holder,
            Some(&marker),
            [
                r"EVAL 3 a\n GUARD token 10000 m 12 11 1 ",
                r"EVAL 3 a\n GUARD token 10000 m 12/11/",
                r"EVAL 3 a\n GUARD token  m 12/11/",
                r"EVAL 1 a\n token 12/11/",
            ],
        );
        let moves = |marker| {
            let (question, filling) = (Question::Move, filling(marker));
            shown(|out| super::super::question(out, question, &holder, &filling))
        };
        assert_eq!(moves(None), r"EVAL 1 a\n token   12/11/");
        let checked = alloc::format!(r"EVAL 3 a\n {guard} token  m 12/11/");
        assert_eq!(moves(Some(&marker)), checked);
        let out = shown(|out| take_out(out, &holder));
        assert_eq!(out, r"EVAL 1 a\n token 12/11/ 1");
        let by_digest = |entry: &Entry| {
            let filling = Filling {
                by: Dialect::Sha1,
                ..filling(None)
            };
            shown(|out| super::super::take(out, entry, &filling))
        };
        let shared = r"EVALSHA 2 a\n shearline:intent:a\n token 10000  ";
        assert_eq!(
            by_digest(&Entry::shared(Vec::new(), b"a\n", b"token", false)),
            shared
        );
        assert_eq!(by_digest(&holder), r"EVALSHA 1 a\n token 10000  12 11 1");
        let spans = [3, 2].map(Duration::from_secs);
        let intent = shown(|out| leave_intent(out, b"a\n", spans));
        assert_eq!(intent, r"EVAL 1 shearline:intent:a\n 3000 2000");
        let mut out = Vec::new();
        end_intent(&mut out, b"a");
        assert_eq!(out, b"*2\r\n$3\r\nDEL\r\n$18\r\nshearline:intent:a\r\n");
    }

    #[test]
    fn the_permissions_alone_are_asked_for() {
        let (reader, holder) = (
            Entry::shared(Vec::new(), b"a", b"token", false),
            Entry::permit(Vec::new(), b"a", b"token", [2, 1], false),
        );
        let ask = |entry: &Entry| shown(|out| super::super::ask(out, entry, &["get"]));
        let shared = alloc::format!("EVAL 2 a shearline:intent:a token    {COMMANDS}");
        assert_eq!(ask(&reader), shared);
        assert_eq!(
            ask(&holder),
            alloc::format!("EVAL 1 a token   2 1 2 {COMMANDS}")
        );
    }
}
