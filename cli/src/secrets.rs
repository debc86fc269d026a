//! Passwords in the URLs of nodes, and files that hold a password.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use shearline::Credentials;

use crate::failure::Failure;
use crate::output;
use crate::status::Status;

/// The permission bits of all other users.
const OTHERS: u32 = 0o007;

/// Returns `true` if the URL contains a password, or if a part of the URL may belong to an unescaped password.
pub(crate) fn is_in(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let before = rest.rsplit_once('@').map_or("", |(before, _)| before);
    before.trim_end_matches(':').contains([':', '/', '?', '#'])
}

/// The user and the password for URLs without a password.
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) file: PathBuf,
    pub(crate) is_strict: bool,
}

impl Login {
    /// Returns the user, and the password that the file contains now.
    pub(crate) fn credentials(&self) -> Result<Credentials, Failure> {
        let credentials = Credentials::new(self.read()?);
        Ok(match &self.user {
            Some(user) => credentials.user(user),
            None => credentials,
        })
    }

    /// Reads the password, and removes line ends after it. Reads a pipe, or any other file that is not regular, only
    /// once.
    fn read(&self) -> Result<String, Failure> {
        static PIPED: OnceLock<String> = OnceLock::new();
        if let Some(password) = PIPED.get() {
            return Ok(password.clone());
        }
        let wrong = |what: &dyn fmt::Display| {
            wrong(
                &self.file,
                format_args!("{what}; the option password-file names this file"),
            )
        };
        let password = fs::read_to_string(&self.file).map_err(|error| wrong(&error))?;
        look_at(&self.file, self.is_strict)?;
        let password = password.trim_end_matches(['\n', '\r']);
        if self.user.is_none() && password.is_empty() {
            return Err(wrong(&"it is empty"));
        }
        if fs::metadata(&self.file).is_ok_and(|it| !it.is_file()) {
            let _ = PIPED.set(password.to_owned()); // A command has only one password file.
        }
        Ok(password.to_owned())
    }
}

/// Splits a list of URLs at its commas. Returns `None` if a comma may be part of a user or a password.
///
/// The text after a comma counts as another URL only if it begins with a scheme or has no credentials. Any other text
/// could be the rest of a password with a comma. A part of a password must never be used as a host.
fn cut(list: &str) -> Option<Vec<&str>> {
    let pieces: Vec<&str> = list.split(',').map(str::trim).collect();
    let is_rest = |piece: &&str| piece.contains('@') && !piece.contains("://");
    match pieces.iter().skip(1).any(is_rest) {
        true => None,
        false => Some(pieces),
    }
}

/// Returns the URLs in these lists. A single empty list means no URLs. Errors begin with `from`, the source of the
/// lists.
///
/// Refuses an empty entry, because it may come from an unset variable. If the command left out a node, a smaller
/// majority would be enough for a lock.
pub(crate) fn urls(from: &str, lists: &[String]) -> Result<Vec<String>, Failure> {
    let wrong = |what| Failure::new(Status::Configuration, format_args!("{from}: {what}"));
    let lists: Option<Vec<_>> = lists.iter().map(|list| cut(list)).collect();
    let comma = "a user or a password contains a comma, or a URL with credentials has no scheme; write such a comma as \
                 %2C, and begin such a URL with redis:// or another scheme";
    match &lists.ok_or_else(|| wrong(comma))?.concat()[..] {
        [""] => Ok(Vec::new()),
        urls if urls.contains(&"") => Err(wrong(
            "an entry of the list is empty; write a URL there, or remove the extra comma",
        )),
        urls => Ok(urls.iter().copied().map(str::to_owned).collect()),
    }
}

/// Warns about a password file that every user can read. If `is_strict` is set, refuses the file.
///
/// The default is a warning, because a file that is mounted into a container has mode 0444, and a container has no
/// other users.
pub(crate) fn look_at(path: &Path, is_strict: bool) -> Result<(), Failure> {
    let metadata = fs::metadata(path).map_err(|error| wrong(path, error))?;
    if metadata.mode() & OTHERS == 0 {
        return Ok(());
    }
    let what = "every user can read this file, which holds a password; run `chmod o=` on it";
    let failure = wrong(path, what);
    if is_strict {
        return Err(failure);
    }
    // Warns only once about each file, even if the command reads the file again.
    static WARNED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut warned = WARNED.lock().expect("nothing panics with it");
    if !warned.iter().any(|it| it == path) {
        let warning = format_args!("warning: {}", failure.message);
        output::complain(output::DOUBTFUL, warning);
        warned.push(path.to_owned());
    }
    Ok(())
}

/// Returns the failure for a file that cannot be used.
pub(crate) fn wrong(path: &Path, what: impl fmt::Display) -> Failure {
    let what = format_args!("{}: {what}", path.display());
    Failure::new(Status::Configuration, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_found_where_there_is_one() {
        for url in [
            "redis://:p@a",
            "u:p@a",
            "unix://u:p@/run/r",
            "redis://u:p/q@a",
            "redis://u:p#q@a",
        ] {
            assert!(is_in(url), "{url}");
        }
        for url in [
            "redis://u@a:1",
            "redis://u:@a",
            "redis://:@a",
            "a:1",
            "unix:/run/r",
            "rediss://[::1]:1/2?ca=/a:b",
        ] {
            assert!(!is_in(url), "{url}");
        }
    }

    #[test]
    fn a_list_is_not_cut_inside_a_password() {
        for list in [
            "redis://u:1,locker:6543,z@10.0.0.1",
            "redis://u:1,z@a,redis://b",
            "u:p,q@a",
            "redis://u:p,@a",
            "redis://u,v:p@a",
            "redis://a,b, u:p@c",
            "redis://u:p,q/r@a",
            ":p@a,:p@b",
        ] {
            assert_eq!(cut(list), None, "{list}");
        }
        for (list, urls) in [
            ("", vec![""]),
            ("u:p@a", vec!["u:p@a"]),
            ("a:1, b:2,", vec!["a:1", "b:2", ""]),
            (
                "redis://u:p%2Cq@a,rediss://u:p@b,unix:/c",
                vec!["redis://u:p%2Cq@a", "rediss://u:p@b", "unix:/c"],
            ),
        ] {
            assert_eq!(cut(list), Some(urls), "{list}");
        }
    }
}
