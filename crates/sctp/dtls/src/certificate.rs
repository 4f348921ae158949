//! Self-signed certificates, and the fingerprints that identify them (RFC 8122, section 5).

use std::fmt;
use std::str::FromStr;

use p256::ecdsa::{DerSignature, SigningKey};
use p256::elliptic_curve::Generate;
use p256::pkcs8::EncodePrivateKey;
use sha2::{Digest, Sha256};
use x509_cert::builder::{Builder, CertificateBuilder, profile::BuilderProfile};
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::asn1::UtcTime;
use x509_cert::der::{DateTime, Encode};
use x509_cert::ext::pkix::BasicConstraints;
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{SubjectPublicKeyInfo, SubjectPublicKeyInfoRef};
use x509_cert::time::{Time, Validity};

use crate::error::CertificateError;

/// SHA-256 fingerprint of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    /// Writes pairs of hexadecimal digits separated by colons, as in SDP.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = CertificateError;

    fn from_str(text: &str) -> Result<Self, CertificateError> {
        let mut bytes = [0; 32];
        let mut pairs = text.trim().split(':');
        for byte in &mut bytes {
            let pair = pairs.next().filter(|pair| pair.len() == 2);
            let pair = pair.ok_or(CertificateError::NoFingerprint)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| CertificateError::NoFingerprint)?;
        }
        match pairs.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(CertificateError::NoFingerprint),
        }
    }
}

/// Certificate and its private key.
#[derive(Clone)]
pub struct Certificate {
    pub(crate) der: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate")
            .field(&self.fingerprint())
            .finish()
    }
}

/// Self-signed certificate of an end entity, without information besides its key.
struct SelfSigned(Name);

impl BuilderProfile for SelfSigned {
    fn get_issuer(&self, subject: &Name) -> Name {
        subject.clone()
    }

    fn get_subject(&self) -> Name {
        self.0.clone()
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        _: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        // With an extension it is one of version 3, the only version that all implementations of TLS read.
        let end_entity = BasicConstraints {
            ca: false,
            path_len_constraint: None,
        };
        Ok(vec![end_entity.to_extension(&self.0, &[])?])
    }
}

impl Certificate {
    /// Generates a key on P-256 and a self-signed certificate. The certificate does not expire, because
    /// peers trust its fingerprint.
    ///
    /// # Errors
    /// The operating system supplied no random numbers, or the certificate could not be encoded.
    pub fn generate() -> Result<Self, CertificateError> {
        let failed = |error: &dyn fmt::Display| CertificateError::Generation(error.to_string());
        let key = SigningKey::try_generate().map_err(|e| failed(&e))?;
        // RFC 5280, section 4.1.2.2: the serial number is positive and unique.
        let mut serial = <[u8; 16]>::try_generate().map_err(|e| failed(&e))?;
        serial[0] = serial[0] & 0x7f | 0x40;
        let certificate = (|| {
            let serial = SerialNumber::new(&serial)?;
            let begin = UtcTime::from_date_time(DateTime::new(2000, 1, 1, 0, 0, 0)?)?;
            let validity = Validity::new(Time::UtcTime(begin), Time::INFINITY);
            let profile = SelfSigned(Name::from_str("CN=carrick")?);
            let public = SubjectPublicKeyInfo::from_key(key.verifying_key())
                .map_err(x509_cert::builder::Error::from)?;
            CertificateBuilder::new(profile, serial, validity, public)?
                .build::<_, DerSignature>(&key)
        })();
        let certificate = certificate.map_err(|e| failed(&e))?;
        let private = key.to_pkcs8_der().map_err(|e| failed(&e))?;
        Ok(Self {
            der: certificate.to_der().map_err(|e| failed(&e))?,
            key: private.as_bytes().to_vec(),
        })
    }

    /// Makes a certificate from DER, with its private key on P-256 or P-384 in DER of PKCS #8 or SEC 1.
    /// [`Dtls::new`](crate::Dtls::new) checks that both can be read and belong together.
    pub fn from_der(certificate: Vec<u8>, private_key: Vec<u8>) -> Self {
        Self {
            der: certificate,
            key: private_key,
        }
    }

    /// Returns the SHA-256 fingerprint, by which peers identify the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.der)
    }

    /// Certificate in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Private key in DER; it has to be kept secret.
    pub fn private_key(&self) -> &[u8] {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p256::ecdsa::signature::Verifier;
    use x509_cert::der::Decode;

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        let fingerprint = Fingerprint::of(b"certificate");
        let text = fingerprint.to_string();
        assert_eq!(text.len(), 95);
        assert_eq!(text.parse::<Fingerprint>(), Ok(fingerprint));
        for wrong in [
            &text[3..],
            &format!("{text}:00"),
            "AB",
            "",
            &text.replace(':', ""),
        ] {
            assert_eq!(
                wrong.parse::<Fingerprint>(),
                Err(CertificateError::NoFingerprint)
            );
        }
    }

    #[test]
    fn certificates_are_unique_and_self_signed() {
        let certificate = Certificate::generate().unwrap();
        assert_ne!(
            certificate.fingerprint(),
            Certificate::generate().unwrap().fingerprint()
        );
        let read = x509_cert::Certificate::from_der(certificate.der()).unwrap();
        let spki = read.tbs_certificate().subject_public_key_info();
        let point = spki.subject_public_key.raw_bytes();
        let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(point).unwrap();
        let signature = DerSignature::from_bytes(read.signature().raw_bytes()).unwrap();
        let signed = read.tbs_certificate().to_der().unwrap();
        key.verify(&signed, &signature).unwrap();
    }

    #[test]
    fn debug_output_hides_the_key() {
        let certificate = Certificate::generate().unwrap();
        let shown = format!("{certificate:?}");
        assert_eq!(shown, format!("Certificate({})", certificate.fingerprint()));
    }
}
