//! Writes the bytes of lock commands. Each kind of lock has a [`Recipe`], which has one function for each command.
//!
//! | kind | take | release | extend | confirm | inspect, overwrite |
//! | --- | --- | --- | --- | --- | --- |
//! | one name: [`one`] | `SET NX PX`, or a script | a native command, or a script | a script | a script | a script |
//! | several names: [`several`] | a script | a script | a script | a script | none |
//! | with a fencing token: [`fenced`] | a script | as without one | as without one | as without one | as without one |
//! | shared by readers: [`shared`] | a script | a script | a script | a script | none |
//! | a permit: [`permit`] | a script | as shared | as shared | as shared | none |
//!
//! A node that runs no scripts receives a transaction instead of each script, and cannot grant fenced locks, shared
//! locks or permits: see [`transaction`](super::connection). To add a kind of lock, write a file with its recipe, and
//! let [`of`] return it.
//!
//! Most commands about a lock on one name are templates that are encoded at compile time. At run time, the engine fills
//! in the entry (key and token in wire form) and the numbers. In each round, every form of a command is written once,
//! and all nodes that need this form share the bytes. A node with a marker receives scripts that check the marker,
//! except for releases: see [`script`](super::script). Scripts that check a marker are written for each node
//! separately.

pub(super) mod fenced;
pub(super) mod one;
mod permit;
mod several;
pub(super) mod shared;

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::{Entry, Kind};
use crate::resource::{BARRIER_KEY, MARKER_KEY};
use crate::resp::{Decimal, argument, write};

use super::request::{Dialect, Question};
use super::script::Script;

/// A command that is sent to several nodes.
#[derive(Debug)]
pub(crate) struct Command {
    bytes: Vec<u8>,
    /// The form of the command in `bytes`, if other nodes may share these bytes.
    shared: Option<Dialect>,
}

impl Command {
    /// Creates a command that is not written yet. Its bytes will be written to the empty `buffer`.
    pub(crate) const fn new(buffer: Vec<u8>) -> Self {
        Self {
            bytes: buffer,
            shared: None,
        }
    }

    /// Returns the buffer for reuse.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the command in the form `dialect`. Calls `write` if the bytes have another form. A command that checks a
    /// `marker` is written for each node separately.
    #[inline]
    pub(super) fn written(
        &mut self,
        dialect: Dialect,
        marker: Option<&[u8]>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> &[u8] {
        if marker.is_some() || self.shared != Some(dialect) {
            self.bytes.clear();
            write(&mut self.bytes);
            self.shared = marker.is_none().then_some(dialect);
        }
        &self.bytes
    }
}

/// The variable parts of a command, besides the entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling<'a> {
    /// How long the node keeps the keys.
    pub(super) life: Duration,
    /// The marker to check, as an argument in wire form.
    pub(super) marker: Option<&'a [u8]>,
    /// The form in which a script is sent.
    pub(super) by: Dialect,
}

impl Filling<'_> {
    /// The values for a command that only checks permissions.
    const TO_ASK: Self = Self {
        life: Duration::ZERO,
        marker: None,
        by: Dialect::TextOnly,
    };
}

type Write = fn(&mut Vec<u8>, &Entry, &Filling<'_>);

/// The commands about one kind of lock.
pub(super) struct Recipe {
    take: Write,
    release: fn(&mut Vec<u8>, &Entry, Dialect),
    extend: Write,
    confirm: Write,
    inspect: Write,
    overwrite: Write,
    /// Moves a permit to its slot.
    move_slot: Write,
    /// Asks which of these commands the user may not run on the keys.
    ask: fn(&mut Vec<u8>, &Entry, &[&'static str]),
    form: Form,
}

/// How scripts for a kind of lock are sent to nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// The nodes load the scripts, or the engine replaces them with native commands. Once an answer has shown that the
    /// user may release the lock, a `SET` takes it.
    Taught,
    /// The scripts are always sent as text, and the script that takes a lock checks the permissions itself. If a node
    /// runs no scripts, the engine uses transactions instead.
    Untaught,
    /// Like `Untaught`, but without transactions as a fallback.
    Only,
}

/// Returns the recipe for the lock of `entry`.
#[inline]
pub(super) fn of(entry: &Entry) -> &'static Recipe {
    match entry.is_bare() {
        true => &one::RECIPE,
        false => of_another(entry),
    }
}

/// Returns how the scripts for the lock of `entry` are sent to nodes.
#[inline]
pub(super) fn form(entry: &Entry) -> Form {
    match entry.is_bare() {
        true => Form::Taught,
        false => of_another(entry).form,
    }
}

#[cold]
fn of_another(entry: &Entry) -> &'static Recipe {
    match entry.kind() {
        Kind::Plain if entry.is_several() => &several::RECIPE,
        Kind::Plain => &one::RECIPE,
        Kind::Shared => &shared::RECIPE,
        Kind::Permit { .. } => &permit::RECIPE,
    }
}

/// Takes all keys of `entry`, or none.
pub(super) fn take(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    (of(entry).take)(out, entry, filling);
}

/// Deletes the keys of `entry` that contain its token.
pub(super) fn release(out: &mut Vec<u8>, entry: &Entry, by: Dialect) {
    (of(entry).release)(out, entry, by);
}

/// Asks `question` about `entry`.
#[inline(never)]
pub(super) fn question(
    out: &mut Vec<u8>,
    question: Question,
    entry: &Entry,
    filling: &Filling<'_>,
) {
    let recipe = of(entry);
    let write = match question {
        Question::Extend => recipe.extend,
        Question::Confirm => recipe.confirm,
        Question::Inspect => recipe.inspect,
        Question::Overwrite => recipe.overwrite,
        Question::Move => recipe.move_slot,
    };
    write(out, entry, filling);
}

/// Asks which of `commands` the user may not run on the keys of `entry`, and changes nothing.
pub(super) fn ask(out: &mut Vec<u8>, entry: &Entry, commands: &[&'static str]) {
    (of(entry).ask)(out, entry, commands);
}

/// The empty argument that replaces the marker in scripts that check no marker.
const NO_MARKER: &[u8] = b"$0\r\n\r\n";

/// Writes a command that runs a script about `entry`, up to and including the token. The keys come in this order: the
/// names, the keys of `more`, and the marker and the barrier if the script checks a marker. Each key of `more` has two
/// parts. `words` is the number of arguments that follow the token.
#[cold]
fn head<'a>(
    out: &mut Vec<u8>,
    (script, by): (&Script, Dialect),
    entry: &Entry,
    more: impl Iterator<Item = [&'a [u8]; 2]> + Clone,
    marker: Option<&[u8]>,
    words: usize,
) {
    let guard: &[&[u8]] = match marker {
        None => &[],
        Some(_) => &[MARKER_KEY, BARRIER_KEY],
    };
    let keys = entry.names().len() + more.clone().count() + guard.len();
    write::array(out, 4 + keys + words);
    let (verb, script) = match by == Dialect::Sha1 {
        true => (&b"EVALSHA"[..], script.sha1),
        false => (&b"EVAL"[..], script.text),
    };
    for word in [
        verb,
        script.as_bytes(),
        Decimal::new(keys as u64).as_bytes(),
    ] {
        argument(out, word);
    }
    out.extend_from_slice(entry.key_arguments());
    for key in more {
        argument(out, &key.concat());
    }
    for key in guard {
        argument(out, key);
    }
    out.extend_from_slice(entry.token_argument());
}

/// Writes the ttl and the marker, which follow the token in most of these commands.
fn tail(out: &mut Vec<u8>, ttl: &[u8], marker: Option<&[u8]>) {
    argument(out, ttl);
    out.extend_from_slice(marker.unwrap_or(NO_MARKER));
}

/// Writes the names of the commands for which a script must check the user's permissions.
fn to_ask(out: &mut Vec<u8>, commands: &[&str]) {
    for command in commands {
        argument(out, command.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::fenced::Counters;
    use super::*;
    use crate::limits::{COMMAND_BYTES_MAX, FENCING_TOKEN_MAX, RESOURCE_BYTES_MAX};
    use crate::limits::{ENTRY_BYTES_MAX, TOKEN_BYTES_MAX};
    use crate::node::trust::marker::MARKER_BYTES_MAX;

    #[test]
    fn no_command_about_one_name_is_longer_than_its_limit() {
        let name = &[b'k'; RESOURCE_BYTES_MAX][..];
        let token = &[b't'; TOKEN_BYTES_MAX][..];
        let mut marker = Vec::new();
        argument(&mut marker, &[b'm'; MARKER_BYTES_MAX]);
        let filling = Filling {
            life: Duration::MAX,
            marker: Some(&marker),
            by: Dialect::Text,
        };
        let counters = Counters {
            number: FENCING_TOKEN_MAX,
            ttl: Duration::MAX,
            run_id: &"r".repeat(64),
        };
        let plain = Entry::new(Vec::new(), name, token);
        let about = |asked, entry| {
            let mut out = Vec::new();
            question(&mut out, asked, entry, &filling);
            out.len()
        };
        let mut longest = about(Question::Inspect, &plain).max(about(Question::Overwrite, &plain));
        for entry in [
            &plain,
            &Entry::shared(Vec::new(), name, token, true),
            &Entry::permit(Vec::new(), name, token, [1024, 1023], true),
        ] {
            let (mut taken, mut numbered, mut released) = (Vec::new(), Vec::new(), Vec::new());
            take(&mut taken, entry, &filling);
            let commands = ["get", "del", "set", "evalsha"];
            fenced::take(&mut numbered, entry, &filling, &counters, &commands);
            release(&mut released, entry, Dialect::Text);
            let asked = [Question::Extend, Question::Confirm].map(|asked| about(asked, entry));
            let taken = [taken.len(), numbered.len(), released.len()];
            longest = taken.into_iter().chain(asked).fold(longest, usize::max);
        }
        assert!(longest <= COMMAND_BYTES_MAX, "{longest}");
        assert!(COMMAND_BYTES_MAX < longest + 1024, "{longest}");

        let mut entry = plain.arguments().to_vec();
        argument(&mut entry, Decimal::millis(Duration::MAX).as_bytes());
        assert!(entry.len() <= ENTRY_BYTES_MAX, "{}", entry.len());
    }
}
