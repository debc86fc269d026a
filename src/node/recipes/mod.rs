//! The commands about locks, as bytes. A kind of lock is a [`Recipe`]: a row with one command for each question.
//!
//! | kind | take | release | extend | confirm | inspect, overwrite |
//! | --- | --- | --- | --- | --- | --- |
//! | one name: [`one`] | `SET NX PX`, or a script | a native command, or a script | a script | a script | a script |
//! | several names: [`several`] | a script | a script | a script | a script | no name of it is asked about |
//! | with a fencing token: [`fenced`] | a script | as without | as without | as without | as without |
//! | shared by readers: [`shared`] | a script | a script | a script | a script | no |
//! | a permit: [`permit`] | a script | as shared | as shared | as shared | no |
//!
//! A node without scripts gets a transaction in place of each script, and no fenced lock, shared lock or permit: see
//! [`transaction`](super::connection). To add a kind of lock, write its file with its row, and choose it in [`of`].
//!
//! Each command is a template that was encoded at compile time. Only the entry (key and token in wire form) is copied
//! into it, and the numbers are written. This is done once for each round and form; the nodes that take a command in
//! the same form share its bytes. A node that carries a marker gets scripts that check it, except for releases: see
//! [`script`](super::script). These are written for that node alone.

pub(super) mod fenced;
pub(super) mod one;
mod permit;
mod several;
pub(super) mod shared;

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::{Entry, Kind};

use super::request::{Dialect, Question};

/// A command on its way to several nodes.
#[derive(Debug)]
pub(crate) struct Command {
    bytes: Vec<u8>,
    /// The form of the command in `bytes`, if other nodes may share it.
    shared: Option<Dialect>,
}

impl Command {
    /// Returns a command that is not written yet, with an empty `buffer`.
    pub(crate) const fn new(buffer: Vec<u8>) -> Self {
        Self {
            bytes: buffer,
            shared: None,
        }
    }

    /// Returns the buffer, for the pool.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the command in `dialect`. Calls `write` unless the command is already there in that form. A command that
    /// checks a `marker` is written for one node alone.
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

/// What is filled into a command, besides the entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling<'a> {
    /// How long the keys are kept.
    pub(super) life: Duration,
    /// The marker to check, an argument in wire form.
    pub(super) marker: Option<&'a [u8]>,
    /// The form of a script.
    pub(super) by: Dialect,
}

impl Filling<'_> {
    /// For a script that is only asked for the permissions.
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

/// How nodes get the scripts of a kind of lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// Nodes are taught the scripts, or have native commands in place of them. Such a lock is taken by `SET`, once a
    /// trial has shown that it may be released.
    Taught,
    /// The scripts are sent by their text each time, and the one that takes a lock asks for the permissions itself. On
    /// a node without scripts transactions take their place.
    Untaught,
    /// The same, but nothing takes their place.
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

/// Returns how nodes get the scripts of the lock of `entry`.
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

/// Takes the keys of `entry`, or none of them.
pub(super) fn take(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    (of(entry).take)(out, entry, filling);
}

/// Deletes the keys of `entry` that hold its token.
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

/// Asks which of `commands` the user may not run on the keys of `entry`, and does nothing.
pub(super) fn ask(out: &mut Vec<u8>, entry: &Entry, commands: &[&'static str]) {
    (of(entry).ask)(out, entry, commands);
}
