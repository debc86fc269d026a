//! Certificates for servers and clients of TLS tests: right ones and wrong ones.
//!
//! Also part of the tests of `src/driver`.

#[allow(
    unused_imports,
    reason = "where it is a part of the library, there is no prelude of std"
)]
use std::{prelude::v1::*, vec};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// An authority, with a certificate of its own.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM form.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The span of time in which a certificate is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Span {
    Now,
    #[cfg(feature = "tls")]
    /// Until the end of 2001.
    Past,
    #[cfg(feature = "tls")]
    /// From 2190 on.
    Future,
}

impl Span {
    fn set(self, params: &mut CertificateParams) {
        (params.not_before, params.not_after) = match self {
            Self::Now => (date_time_ymd(2001, 1, 1), date_time_ymd(2190, 1, 1)),
            #[cfg(feature = "tls")]
            Self::Past => (date_time_ymd(2001, 1, 1), date_time_ymd(2001, 12, 31)),
            #[cfg(feature = "tls")]
            Self::Future => (date_time_ymd(2190, 1, 1), date_time_ymd(2191, 1, 1)),
        };
    }
}

/// Returns the parameters of a certificate for an authority of this name.
fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(named(name), key);
        Self(issuer.expect("a certificate"))
    }

    /// Issues the certificate of another authority, which has expired.
    #[cfg(feature = "tls")]
    pub(crate) fn expired(&self, name: &str) -> Self {
        let mut params = named(name);
        Span::Past.set(&mut params);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::signed_by(params, key, &self.0);
        Self(issuer.expect("a certificate"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for a server with these names and addresses.
    pub(crate) fn server(&self, names: &[&str], span: Span) -> Issued {
        self.issue(names, span, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a certificate for a client.
    #[cfg(feature = "tls")]
    pub(crate) fn client(&self, span: Span) -> Issued {
        self.issue(&["client"], span, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Makes a self-signed certificate, of an authority or not.
    #[cfg(feature = "tls")]
    pub(crate) fn alone(names: &[&str], is_authority: bool, span: Span) -> Issued {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_after = match span {
            Span::Past => date_time_ymd(2001, 12, 31),
            Span::Now | Span::Future => date_time_ymd(2190, 1, 1),
        };
        params.not_before = date_time_ymd(2001, 1, 1);
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    fn issue(&self, names: &[&str], span: Span, purpose: ExtendedKeyUsagePurpose) -> Issued {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![purpose];
        span.set(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}
