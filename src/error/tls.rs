//! Why a node cannot be reached over TLS: a setting that cannot be used, or a handshake that failed.
//!
//! No value in this module contains a key, or a part of a key. The errors name a file by its path.
#![cfg_attr(
    not(feature = "tls"),
    allow(dead_code, reason = "only the feature `tls` constructs these values")
)]

use alloc::string::String;
use core::fmt;

/// One of the TLS settings of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
pub(crate) enum TlsPart {
    #[error("the trusted authorities")]
    Authorities,
    /// The certificate of this client, and the intermediate certificates up to its authority.
    #[error("the client certificate")]
    Certificate,
    #[error("the key of the client certificate")]
    Key,
    /// The name that the certificate of the node must have.
    #[error("the server name")]
    ServerName,
}

/// What is wrong with a TLS setting.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
pub(crate) enum TlsProblem {
    #[error("no such file; correct the path")]
    Missing,
    #[error("this process may not read the file; correct its permissions")]
    Forbidden,
    /// Another reason, such as a file larger than 16 MiB.
    #[error("the file cannot be read; check that it is a regular file of at most 16 MiB")]
    Unreadable,
    /// The file holds no certificate or no key.
    #[error("the file has no PEM section of this kind")]
    Empty,
    #[error("it is not well-formed PEM, or its kind is not supported")]
    Malformed,
    #[error(
        "it is protected by a password; store it without one (`openssl pkey -in protected.pem -out key.pem`), and let \
         only this program read the file"
    )]
    Password,
    #[error("the key does not belong to the certificate; give a certificate and a key that match")]
    KeyMismatch,
    #[error(
        "the system has none; install the package `ca-certificates`, or give a file \
         (`?ca=` in the URL, or `TlsOptions`)"
    )]
    NoneInstalled,
    #[error("it is neither a host name nor an address")]
    NotAName,
}

/// Why the TLS settings of a node cannot be used. The check happens when a handle is built, before any I/O with the
/// node.
///
/// The text of the error names the node, the setting, the file if there is one, and the problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TlsSetting {
    /// The address of the node, as in reports.
    pub(crate) node: String,
    pub(crate) part: TlsPart,
    /// The path of the file; `None` if the setting is not in a file.
    pub(crate) file: Option<String>,
    pub(crate) problem: TlsProblem,
}

impl core::error::Error for TlsSetting {}

impl fmt::Display for TlsSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}: {}", self.node, self.part)?;
        if let Some(file) = &self.file {
            write!(f, " ({})", file.escape_debug())?;
        }
        write!(f, " cannot be used: {}", self.problem)
    }
}

/// A day of the calendar, in UTC.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Day {
    /// At most 65535.
    year: u16,
    month: u8,
    day: u8,
}

impl Day {
    /// Returns the day of a time in seconds since the beginning of 1970.
    // The algorithm `civil_from_days` of Howard Hinnant, for days that are not negative.
    #[cfg(any(feature = "tls", test))]
    pub(crate) fn of_unix(seconds: u64) -> Self {
        let days = seconds / 86_400 + 719_468; // Since the first of March of the year 0.
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self {
            year: u16::try_from(year).unwrap_or(u16::MAX),
            month: month as u8,
            day: day as u8,
        }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Why a TLS handshake with a node failed, or was not tried. The text says what to correct. A certificate that the text
/// mentions is the node's own certificate, or an intermediate certificate between the node and its authority.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
pub(crate) enum TlsFault {
    #[error("its certificate expired on {0}; renew it, and check the clock of this machine")]
    Expired(Day),
    #[error("its certificate is not valid before {0}; check the clock of this machine")]
    NotYetValid(Day),
    #[error(
        "its certificate comes from an unknown authority; give that authority's file (`?ca=` in the URL, \
         or `TlsOptions`)"
    )]
    UnknownAuthority,
    #[error(
        "its certificate is not signed by the trusted authority, but by another authority of the same name, or with \
         another key; give the file of the authority that signed it (`?ca=` in the URL, or `TlsOptions`)"
    )]
    OtherKey,
    #[error(
        "its certificate is for another name; if it is the right server, use that name in the URL, or set it with \
         `?name=`"
    )]
    WrongName,
    #[error(
        "its certificate is self-signed; if it is the right certificate, give its own file (`?ca=` in the URL, or \
         `TlsOptions`)"
    )]
    SelfSigned,
    #[error(
        "its certificate is the certificate of an authority; use one that the authority issued, or, if it is the right \
         certificate, give its own file (`?ca=` in the URL, or `TlsOptions`)"
    )]
    OfAuthority,
    #[error(
        "its certificate names no host: it has no subjectAltName, and a common name does not count; issue one \
         with its names and addresses, as the manual (`shearline::manual::tls`) does"
    )]
    NoNames,
    #[error(
        "its certificate has version 1 of X.509, which is not supported; issue one of version 3 with a \
         subjectAltName, as the manual (`shearline::manual::tls`) does"
    )]
    FirstVersion,
    #[error("its certificate is malformed, not for a server, or signed in an unsupported way")]
    BadCertificate,
    #[error(
        "it requires a client certificate; set one (`?cert=` and `?key=` in the URL, or `TlsOptions`)"
    )]
    ClientCertificateMissing,
    #[error(
        "it refuses the client certificate (TLS alert {0}); use an unexpired client certificate from an authority that \
         the node trusts"
    )]
    ClientCertificateRefused(u8),
    #[error(
        "the server at this port does not speak TLS; use redis://, or the TLS port of the server"
    )]
    NotTls,
    /// The two sides have no version of TLS, cipher or signature in common.
    #[error(
        "it has no TLS version and cipher in common with this client, which supports 1.2 and 1.3"
    )]
    NothingInCommon,
    /// Any other reason.
    #[error("it refused the TLS handshake (alert {0}); its log may say why")]
    Alert(u8),
    /// The file was changed after the handle was built, and cannot be used.
    #[error("{part} can no longer be used: {problem}")]
    Setting { part: TlsPart, problem: TlsProblem },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LinkError;
    use alloc::string::ToString;

    /// Every event of a connection stores this value, so it should be small.
    #[test]
    fn the_reason_of_a_connection_stays_small() {
        assert_eq!(size_of::<LinkError>(), 8);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_735_689_599, "2024-12-31"),
            (4_102_444_800, "2100-01-01"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_799, "9999-12-31"),
        ] {
            assert_eq!(Day::of_unix(seconds).to_string(), text);
        }
        assert_eq!(Day::of_unix(u64::MAX).year, u16::MAX);
    }

    #[test]
    fn the_texts_say_what_to_do() {
        let error = TlsSetting {
            node: "a:6379".into(),
            part: TlsPart::Key,
            file: Some("/etc/locker.key".into()),
            problem: TlsProblem::Password,
        };
        assert_eq!(
            error.to_string(),
            "node a:6379: the key of the client certificate (/etc/locker.key) cannot be used: it is protected by a \
             password; store it without one (`openssl pkey -in protected.pem -out key.pem`), and let only this program \
             read the file"
        );
        assert_eq!(
            TlsFault::Expired(Day::of_unix(0)).to_string(),
            "its certificate expired on 1970-01-01; renew it, and check the clock of this machine"
        );
        let setting = TlsFault::Setting {
            part: TlsPart::Certificate,
            problem: TlsProblem::Missing,
        };
        assert_eq!(
            setting.to_string(),
            "the client certificate can no longer be used: no such file; correct the path"
        );
    }
}
