//! Replaces `trace` in a build without the feature `tracing`. The types are empty and the functions do nothing, so the
//! compiler removes the code that uses them.

use core::future::Future;
use core::task::Waker;
use core::time::Duration;

use crate::config::Config;
use crate::engine::{Engine, Request};
use crate::quorum::Lock;
use crate::time::Instant;

#[derive(Debug)]
pub(crate) struct Tracer;

#[derive(Debug)]
pub(crate) struct Operation;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts(());

#[inline(always)]
pub(crate) fn look(_: &mut Engine, _: Instant) {}

macro_rules! operations {
    ($($name:ident($($argument:ty),*);)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(&self, $(_: $argument),*) -> Operation {
            Operation
        }
    )*};
}

impl Tracer {
    pub(crate) fn new(_: &Config) -> Self {
        Self
    }

    operations! {
        acquire(&Request<'_>);
        extend(&Lock, Duration);
        confirm(&Lock);
        release(&Lock);
        inspect(&[u8]);
        break_lock(&[u8]);
        reinit();
    }

    #[inline(always)]
    pub(crate) fn collect(&self, _: &mut Engine) -> Option<Waker> {
        None
    }

    #[inline(always)]
    pub(crate) fn emit(&self, _: &mut Engine) {}
}

impl Operation {
    #[inline(always)]
    pub(crate) fn enter<T>(&self, part: impl FnOnce() -> T) -> T {
        part()
    }

    #[inline(always)]
    pub(crate) fn drive<F: Future>(&self, part: F) -> F {
        part
    }

    #[inline(always)]
    pub(crate) fn run<T>(self, rest: impl FnOnce(&Self) -> T) -> T {
        rest(&self)
    }

    #[inline(always)]
    pub(crate) fn drop_with(self, give_back: impl FnOnce()) {
        give_back();
    }

    #[inline(always)]
    pub(crate) fn fail<E>(self, error: E) -> E {
        error
    }

    #[inline(always)]
    pub(crate) fn has(&self, _: &Lock) {}

    #[inline(always)]
    pub(crate) fn made(&self, _: Attempts) {}
}

impl Attempts {
    #[inline(always)]
    pub(crate) fn of(_: &mut Engine) -> Self {
        Self(())
    }
}
