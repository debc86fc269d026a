//! Decides whether to trust the certificate of a node, and returns the reason if not.
//!
//! webpki checks each certificate. In addition, a certificate that `ca` itself contains is trusted, even if its issuer
//! is unknown or if it is the certificate of an authority. OpenSSL does the same with `X509_V_FLAG_PARTIAL_CHAIN`. The
//! certificate of the node must have the same bytes as the one in `ca`, and the node must prove that it has the private
//! key. The dates and names of the certificate are still checked, because `ca` may contain the certificates of several
//! nodes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::reason;
use crate::error::TlsFault;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    /// The certificates in `ca`.
    named: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Returns `None` if `roots` is empty.
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        named: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Option<Arc<Self>> {
        let webpki = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
        let webpki = webpki.build().ok()?;
        Some(Arc::new(Self {
            webpki,
            named,
            algorithms: provider.signature_verification_algorithms,
        }))
    }

    /// Returns `true` if the certificate is self-signed. The certificate is checked with itself as the only trusted
    /// authority, and counts as self-signed unless the check finds an unknown issuer.
    fn is_self_signed(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
        let mut roots = RootCertStore::empty();
        let Ok(parsed) = ParsedCertificate::try_from(certificate) else {
            return false;
        };
        let _ = roots.add(certificate.clone().into_owned());
        let all = self.algorithms.all;
        let checked = verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, all);
        checked != Err(CertificateError::UnknownIssuer.into())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_named = self.named.iter().any(|named| **named == **certificate);
        // Without intermediate certificates, webpki checks the certificate itself before it reports an unknown issuer.
        // So a certificate that is in `ca` is checked without intermediate certificates.
        let between = if is_named { &[] } else { between };
        let webpki = &self.webpki;
        let Err(error) = webpki.verify_server_cert(certificate, between, name, ocsp, now) else {
            return Ok(ServerCertVerified::assertion());
        };
        let is_by_another = error == CertificateError::BadSignature.into();
        let fault = match is_by_another {
            true => Some(TlsFault::OtherKey),
            false => reason::of_invalid(&error),
        };
        let fault = match fault {
            Some(TlsFault::UnknownAuthority | TlsFault::OtherKey | TlsFault::OfAuthority)
                if is_named =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                return Ok(ServerCertVerified::assertion());
            }
            Some(TlsFault::UnknownAuthority | TlsFault::OtherKey)
                if self.is_self_signed(certificate, now) =>
            {
                TlsFault::SelfSigned
            }
            Some(TlsFault::OtherKey) => TlsFault::OtherKey,
            _ => return Err(error),
        };
        Err(CertificateError::Other(OtherError(Arc::new(fault))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
