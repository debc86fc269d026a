//! The commands for a permit, which is one of several slots. For the script,
//! see [`script::permit`](crate::node::script).

use alloc::vec::Vec;
use core::iter::empty;

use crate::entry::{Entry, Kind};
use crate::node::script::{MOVE_SLOT, TAKE_SLOT};
use crate::resp::{Decimal, argument};

use super::shared::{confirm, extend, not_asked, question, release, to_check};
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
    move_slot,
    ask: |out, entry, _| take_if_permitted(out, entry, b"", &Filling::TO_ASK),
    form: Form::Only,
};

/// Takes the first free slot, or a certain slot if `entry` names one. If the script is sent as text, it also checks
/// whether the user may release the slot. If the ttl is empty, the command only checks permissions.
#[cold]
fn take_if_permitted(out: &mut Vec<u8>, entry: &Entry, ttl: &[u8], filling: &Filling<'_>) {
    let Filling { marker, by, .. } = *filling;
    let (script, commands) = ((&TAKE_SLOT, by), to_check(by));
    head(out, script, entry, empty(), marker, 5 + commands.len());
    tail(out, ttl, marker);
    slots(out, entry);
    to_ask(out, commands);
}

/// Writes the number of permits, the first slot to try, and the number of slots to try.
pub(super) fn slots(out: &mut Vec<u8>, entry: &Entry) {
    let Kind::Permit { permits, slot } = entry.kind() else {
        unreachable!("only a permit has slots");
    };
    let tried = if entry.has_slot() { 1 } else { permits };
    for number in [permits, slot, tried] {
        argument(out, Decimal::new(number.into()).as_bytes());
    }
}

/// Moves the token to the slot of `entry`.
#[cold]
fn move_slot(out: &mut Vec<u8>, entry: &Entry, filling: &Filling<'_>) {
    question(out, &MOVE_SLOT, entry, b"", filling.marker);
}
