//! Stands for `trace` in a build without the feature `tracing`. Its types are empty and its functions do
//! nothing, so nothing is left of the code that uses them.

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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts;

#[derive(Debug)]
pub(crate) struct Dropped;

pub(crate) trait Failure {}

impl<E> Failure for E {}

#[inline(always)]
pub(crate) fn look(_: &mut Engine, _: Instant) {}

impl Tracer {
    pub(crate) fn new(_: &Config) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn acquire(&self, _: &Request<'_>) -> Operation {
        Operation
    }

    #[inline(always)]
    pub(crate) fn extend(&self, _: &Lock, _: Duration) -> Operation {
        Operation
    }

    #[inline(always)]
    pub(crate) fn confirm(&self, _: &Lock) -> Operation {
        Operation
    }

    #[inline(always)]
    pub(crate) fn release(&self, _: &Lock) -> Operation {
        Operation
    }

    #[inline(always)]
    pub(crate) fn inspect(&self, _: &[u8]) -> Operation {
        Operation
    }

    #[inline(always)]
    pub(crate) fn break_lock(&self, _: &[u8]) -> Operation {
        Operation
    }

    #[inline(always)]
    pub(crate) fn reinit(&self) -> Operation {
        Operation
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
    pub(crate) const fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn of(_: &mut Engine) -> Self {
        Self
    }
}
