//! Which guard of the library is taken out. In an ordinary build none can be.

/// Its name.
#[cfg(not(shearline_mutants))]
pub(crate) fn chosen() -> Option<&'static str> {
    None
}
