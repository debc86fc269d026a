//! Which operations watch which resource.
//!
//! A watch holds no place in a queue: it wants no lock.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::keys::OperationKey;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Watches {
    /// By the names of the resources. No list is empty.
    pub(super) by_name: BTreeMap<Box<[u8]>, Vec<OperationKey>>,
    len: usize,
}

impl Watches {
    pub(super) const fn new() -> Self {
        Self {
            by_name: BTreeMap::new(),
            len: 0,
        }
    }

    /// Returns how many there are.
    pub(in crate::engine) const fn len(&self) -> usize {
        self.len
    }

    /// From now on `operation` watches `name`.
    pub(in crate::engine) fn add(&mut self, name: &[u8], operation: OperationKey) {
        let of_name = self.by_name.entry(name.into()).or_default();
        of_name.push(operation);
        self.len += 1;
    }

    /// `operation` does not watch `name` any more.
    pub(in crate::engine) fn remove(&mut self, name: &[u8], operation: OperationKey) {
        if let Some(of_name) = self.by_name.get_mut(name) {
            let before = of_name.len();
            of_name.retain(|other| *other != operation);
            self.len -= before - of_name.len();
            if of_name.is_empty() {
                self.by_name.remove(name);
            }
        }
    }

    /// Returns the operations that watch `name`, or all of them for `None`.
    pub(in crate::engine) fn of(
        &self,
        name: Option<&[u8]>,
    ) -> impl Iterator<Item = OperationKey> + '_ {
        let one = name.and_then(|name| self.by_name.get(name));
        let all = name.is_none().then(|| self.by_name.values());
        let all = all.into_iter().flatten();
        one.into_iter().chain(all).flatten().copied()
    }
}
