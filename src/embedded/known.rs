//! The scripts that the node knows, and which of them it was given.
//!
//! Not here: what they do. That is in `scripts`.

use crate::node::{
    CHECKED_ACQUIRE, CHECKED_CONFIRM, CHECKED_EXTEND, CONFIRM, EXTEND, JOIN, RELEASE,
    SET_IF_PERMITTED, Script,
};

use super::refusal::Refusal;

const FOREIGN: Refusal = Refusal::fixed(
    "ERR this embedded node runs only the scripts of shearline; use a redis-server for others",
);

/// Which scripts the node was given since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scripts {
    release: bool,
    extend: bool,
    confirm: bool,
    checked_acquire: bool,
    checked_extend: bool,
    checked_confirm: bool,
    join: bool,
    first_set: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Known {
    Release,
    Extend,
    Confirm,
    CheckedAcquire,
    CheckedExtend,
    CheckedConfirm,
    Join,
    FirstSet,
}

impl Known {
    const ALL: [Self; 8] = [
        Self::Release,
        Self::Extend,
        Self::Confirm,
        Self::CheckedAcquire,
        Self::CheckedExtend,
        Self::CheckedConfirm,
        Self::Join,
        Self::FirstSet,
    ];

    const fn script(self) -> &'static Script {
        match self {
            Self::Release => &RELEASE,
            Self::Extend => &EXTEND,
            Self::Confirm => &CONFIRM,
            Self::CheckedAcquire => &CHECKED_ACQUIRE,
            Self::CheckedExtend => &CHECKED_EXTEND,
            Self::CheckedConfirm => &CHECKED_CONFIRM,
            Self::Join => &JOIN,
            Self::FirstSet => &SET_IF_PERMITTED,
        }
    }

    const fn text(self) -> &'static str {
        self.script().text
    }

    pub(super) const fn digest(self) -> &'static str {
        self.script().sha1
    }

    pub(super) fn by_text(text: &[u8]) -> Result<Self, Refusal> {
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
    pub(super) fn slot(&mut self, known: Known) -> &mut bool {
        match known {
            Known::Release => &mut self.release,
            Known::Extend => &mut self.extend,
            Known::Confirm => &mut self.confirm,
            Known::CheckedAcquire => &mut self.checked_acquire,
            Known::CheckedExtend => &mut self.checked_extend,
            Known::CheckedConfirm => &mut self.checked_confirm,
            Known::Join => &mut self.join,
            Known::FirstSet => &mut self.first_set,
        }
    }

    pub(super) fn has(&mut self, digest: &[u8]) -> Option<Known> {
        Known::by_digest(digest).filter(|known| *self.slot(*known))
    }
}
