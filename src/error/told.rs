//! The two forms of an error's text. `{}` is a short message that names the lock, for users. `{:#}` is for operators
//! and logs: it adds what each node said, the consequences and advice, and names the page of the manual that helps.

use alloc::string::{String, ToString};
use core::fmt;

/// The text of an error, in both forms.
pub(crate) struct Told {
    pub(crate) clause: String,
    /// The text that the long form adds.
    pub(crate) rest: String,
}

impl Told {
    /// Splits the text of an error. The short form ends at the first semicolon.
    pub(crate) fn of(text: impl fmt::Display) -> Self {
        let text = text.to_string();
        let (clause, rest) = text.split_at(text.find("; ").unwrap_or(text.len()));
        Self {
            clause: clause.into(),
            rest: rest.into(),
        }
    }

    /// Writes the text. The long form ends with the `page` of the manual that helps, unless it names a page already.
    pub(crate) fn write(&self, page: Option<&str>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.clause)?;
        if !f.alternate() {
            return Ok(());
        }
        f.write_str(&self.rest)?;
        match page.filter(|_| !self.rest.contains("`shearline::manual::")) {
            Some(page) => write!(f, "; see the manual ({page})"),
            None => Ok(()),
        }
    }
}

/// Implements `Display` for errors with a method `told`. Also implements `report`, which returns the report of a
/// variant that contains one.
macro_rules! told {
    ($($error:ident { $($reported:ident),* })*) => {$(
        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.told().write(self.report().map($crate::Report::page), f)
            }
        }

        impl $error {
            /// Returns what each node said, if the nodes were asked.
            #[must_use]
            pub const fn report(&self) -> Option<&$crate::Report> {
                match self {
                    $(Self::$reported(report))|* => Some(report),
                    _ => None,
                }
            }
        }
    )*};
}

/// Implements a method that returns the resource, for errors with a report about a lock.
macro_rules! resource {
    ($($error:ident)*) => {$(
        impl $error {
            /// Returns the resource that the nodes were asked about, or the first of several resources.
            #[must_use]
            pub fn resource(&self) -> Option<&[u8]> {
                self.report()?.resource()
            }
        }
    )*};
}

pub(crate) use {resource, told};
