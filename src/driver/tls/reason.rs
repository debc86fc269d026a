//! Translates rustls errors and TLS alerts into faults for an operator.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the errors of others have many kinds, of which few are told apart here"
)]

use alloc::string::ToString;

use rustls::{AlertDescription, CertificateError, ClientConnection, Error, OtherError};

use crate::error::{Day, LinkFault, TlsFault, TlsPart, TlsProblem};

/// TLS alerts about the certificate of a client (RFC 8446, 6.2).
const CERTIFICATE_REQUIRED: u8 = 116;
const BAD_CERTIFICATE: u8 = 42;
const CERTIFICATE_UNKNOWN: u8 = 46;
const UNKNOWN_CA: u8 = 48;
const ACCESS_DENIED: u8 = 49;
/// TLS alerts about versions and ciphers.
const PROTOCOL_VERSION: u8 = 70;
const INSUFFICIENT_SECURITY: u8 = 71;

pub(super) fn of_setting(part: TlsPart, problem: TlsProblem) -> LinkFault {
    LinkFault::Tls(TlsFault::Setting { part, problem })
}

/// Interprets an `error`. `connection` is the connection on which the error occurred, if there was one.
pub(super) fn of(error: &Error, connection: Option<&ClientConnection>) -> LinkFault {
    let is_handshaking = connection.is_none_or(|tls| tls.is_handshaking());
    let is_first = connection.is_none_or(|tls| tls.protocol_version().is_none());
    let failure = match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => TlsFault::BadCertificate,
        Error::AlertReceived(alert) => return of_alert(*alert, is_handshaking),
        Error::PeerIncompatible(_) => TlsFault::NothingInCommon,
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } if is_first => {
            TlsFault::NotTls
        }
        _ => return LinkFault::Protocol,
    };
    LinkFault::Tls(failure)
}

/// Returns the fault of the certificate, if `error` is about a certificate.
pub(super) fn of_invalid(error: &Error) -> Option<TlsFault> {
    match error {
        Error::InvalidCertificate(error) => Some(of_certificate(error)),
        _ => None,
    }
}

fn of_certificate(error: &CertificateError) -> TlsFault {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            TlsFault::Expired(Day::of_unix(not_after.as_secs()))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            TlsFault::NotYetValid(Day::of_unix(not_before.as_secs()))
        }
        CertificateError::UnknownIssuer => TlsFault::UnknownAuthority,
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            TlsFault::NoNames
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsFault::WrongName
        }
        CertificateError::Other(OtherError(error)) => match error.downcast_ref::<TlsFault>() {
            Some(fault) => *fault,
            // rustls does not export the error type of webpki, so its text is compared.
            None if error.to_string() == "CaUsedAsEndEntity" => TlsFault::OfAuthority,
            None if error.to_string() == "UnsupportedCertVersion" => TlsFault::FirstVersion,
            None => TlsFault::BadCertificate,
        },
        _ => TlsFault::BadCertificate,
    }
}

/// Interprets an alert. A node checks the client's certificate only after the client has finished the handshake.
fn of_alert(alert: AlertDescription, is_handshaking: bool) -> LinkFault {
    let fault = match u8::from(alert) {
        CERTIFICATE_REQUIRED => TlsFault::ClientCertificateMissing,
        code @ (BAD_CERTIFICATE..=CERTIFICATE_UNKNOWN | UNKNOWN_CA | ACCESS_DENIED) => {
            TlsFault::ClientCertificateRefused(code)
        }
        PROTOCOL_VERSION | INSUFFICIENT_SECURITY => TlsFault::NothingInCommon,
        code if is_handshaking => TlsFault::Alert(code),
        _ => return LinkFault::Protocol,
    };
    LinkFault::Tls(fault)
}
