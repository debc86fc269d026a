//! The commands about a lock on several names.
//!
//! Each command runs a script. The scripts are always sent as text, because locks on several names are rare. For the
//! scripts, see [`script::several`](crate::node::script).

use alloc::vec::Vec;
use core::iter::empty;

use crate::entry::Entry;
use crate::node::request::Dialect;
use crate::node::script::{CONFIRM_SEVERAL, EXTEND_SEVERAL, RELEASE_SEVERAL, Script, TAKE_SEVERAL};
use crate::resp::Decimal;

use super::{Filling, Form, Recipe, head, tail, to_ask};

pub(super) static RECIPE: Recipe = Recipe {
    take,
    release,
    extend,
    confirm,
    inspect: about_one_name,
    overwrite: about_one_name,
    ask: |out, entry, commands| take_if_permitted(out, entry, b"", None, commands),
    move_slot: about_one_name,
    form: Form::Untaught,
};

/// The commands that the user must be permitted to run for a lock on several names. An answer names a forbidden command
/// by its index, so the order must be the same as in `TO_LOCK` in `abilities`. The list omits `evalsha`, because the
/// release script of a lock on several names is always sent as text.
const TO_LOCK_SEVERAL: [&str; 3] = ["get", "del", "set"];

/// Takes all keys, or none. The command also checks whether the user may release the keys.
#[cold]
#[inline(never)]
fn take(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    let ttl = Decimal::millis(filling.life);
    take_if_permitted(out, entry, ttl.as_bytes(), filling.marker, &TO_LOCK_SEVERAL);
}

/// Takes the keys if the user may run all of `commands`. If `ttl` is empty, takes nothing and only asks which of these
/// commands the user may not run.
#[cold]
#[inline(never)]
fn take_if_permitted(
    out: &mut Vec<u8>,
    entry: &Entry,
    ttl: &[u8],
    marker: Option<&[u8]>,
    commands: &[&'static str],
) {
    let script = (&TAKE_SEVERAL, Dialect::Text);
    head(out, script, entry, empty(), marker, 2 + commands.len());
    tail(out, ttl, marker);
    to_ask(out, commands);
}

/// Deletes the keys that contain the token.
#[cold]
#[inline(never)]
fn release(out: &mut Vec<u8>, entry: &Entry, _by: Dialect) {
    let script = (&RELEASE_SEVERAL, Dialect::Text);
    head(out, script, entry, empty(), None, 0);
}

#[cold]
fn extend(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    let ttl = Decimal::millis(filling.life);
    question(out, &EXTEND_SEVERAL, entry, ttl.as_bytes(), filling.marker);
}

#[cold]
fn confirm(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    question(out, &CONFIRM_SEVERAL, entry, b"", filling.marker);
}

fn question(out: &mut Vec<u8>, script: &Script, entry: &Entry, ttl: &[u8], marker: Option<&[u8]>) {
    let script = (script, Dialect::Text);
    head(out, script, entry, empty(), marker, 2);
    tail(out, ttl, marker);
}

fn about_one_name(_: &mut Vec<u8>, _: &Entry, _: &Filling<'_>) {
    unreachable!("it is about one name");
}

#[cfg(test)]
mod tests {
    use super::super::fenced;
    use super::*;
    use crate::limits::{RESOURCE_BYTES_MAX, RESOURCES_MAX, SEVERAL_BYTES_MAX, TOKEN_BYTES_MAX};
    use crate::node::trust::marker::MARKER_BYTES_MAX;
    use crate::resp::argument;
    use alloc::string::String;
    use alloc::vec;
    use core::time::Duration;

    fn entry() -> Entry {
        Entry::of_several(Vec::new(), [&b"a"[..], b"b\r\n"].into_iter(), b"token")
    }

    const fn filling(life: Duration, marker: Option<&[u8]>, by: Dialect) -> Filling<'_> {
        Filling { life, marker, by }
    }

    /// Returns a command without the text of its script.
    fn shown(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        fenced::tests::shown(&out)
    }

    #[test]
    fn the_commands_are_what_the_servers_read() {
        let (entry, ttl) = (entry(), Duration::from_secs(10));
        let mut marker = Vec::new();
        argument(&mut marker, b"m");
        for dialect in [
            Dialect::Sha1,
            Dialect::Text,
            Dialect::DelIfEq,
            Dialect::DelEx,
        ] {
            let plain = shown(|out| take(out, &entry, &filling(ttl, None, dialect)));
            assert_eq!(plain, r"EVAL 2 a b\r\n token 10000  get del set");
            let checked = shown(|out| take(out, &entry, &filling(ttl, Some(&marker), dialect)));
            let keys = r"EVAL 4 a b\r\n shearline:marker shearline:barrier token";
            assert_eq!(checked, alloc::format!("{keys} 10000 m get del set"));
            let release = shown(|out| release(out, &entry, dialect));
            assert_eq!(release, r"EVAL 2 a b\r\n token");
            let extended =
                |marker| shown(|out| extend(out, &entry, &filling(ttl, marker, dialect)));
            let confirmed =
                |marker| shown(|out| confirm(out, &entry, &filling(ttl, marker, dialect)));
            assert_eq!(extended(None), r"EVAL 2 a b\r\n token 10000 ");
            assert_eq!(confirmed(None), r"EVAL 2 a b\r\n token  ");
            let marker = Some(&marker[..]);
            assert_eq!(extended(marker), alloc::format!("{keys} 10000 m"));
            assert_eq!(confirmed(marker), alloc::format!("{keys}  m"));
        }
    }

    #[test]
    fn no_command_is_longer_than_its_limit() {
        let long = vec![b'k'; RESOURCE_BYTES_MAX];
        let names = core::iter::repeat_n(&long[..], RESOURCES_MAX);
        let entry = Entry::of_several(Vec::new(), names, &[b't'; TOKEN_BYTES_MAX]);
        let mut marker = Vec::new();
        argument(&mut marker, &[b'm'; MARKER_BYTES_MAX]);
        let mut out = Vec::new();
        take(
            &mut out,
            &entry,
            &filling(Duration::MAX, Some(&marker), Dialect::Text),
        );
        assert!(out.len() <= SEVERAL_BYTES_MAX, "{}", out.len());
    }
}
