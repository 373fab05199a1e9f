//! Keeping the CA certificate that the first peer presents.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustls_pki_types::CertificateDer;
use tracing::info;

use super::TlsError;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Writes the last certificate of a peer's `chain` to `path`, if it is self-signed. A file that
/// another process put there meanwhile stays.
pub(super) fn store_ca(chain: &[CertificateDer<'_>], path: &Path) -> Result<(), TlsError> {
    let last = chain.last().ok_or(TlsError::NoPeerCertificate)?;
    if !is_self_issued(last) {
        return Err(TlsError::NotSelfSigned { count: chain.len() });
    }
    match create(path, last) {
        Ok(()) => {
            info!(target: "stream_ssl", "successfully bootstrapped CA cert to {}", path.display());
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            info!(
                target: "stream_ssl",
                limited = true,
                "reading CA cert {} created by another process",
                path.display()
            );
            Ok(())
        }
        Err(source) => Err(TlsError::Store { path: path.to_owned(), source }),
    }
}

fn create(path: &Path, certificate: &CertificateDer<'_>) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
    let text = pem::encode(&pem::Pem::new("CERTIFICATE", certificate.as_ref()));
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // Half a certificate would be in the way of every later attempt.
        let _ = fs::remove_file(path);
    })
}

/// Whether issuer and subject of an X.509 certificate (RFC 5280 4.1) are the same name.
fn is_self_issued(certificate: &[u8]) -> bool {
    let names = || {
        let (to_be_signed, _) = sequence(sequence(certificate)?.0)?;
        let (tag, _, rest) = element(to_be_signed)?;
        // The version is optional, the serial number after it is not.
        let rest = if tag == VERSION { element(rest)?.2 } else { rest };
        let (_algorithm, rest) = sequence(rest)?;
        let (issuer, rest) = sequence(rest)?;
        let (_validity, rest) = sequence(rest)?;
        let (subject, _) = sequence(rest)?;
        Some((issuer, subject))
    };
    names().is_some_and(|(issuer, subject)| issuer == subject)
}

/// Content of the DER sequence at the start of `der`, and what follows it.
fn sequence(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(der)?;
    (tag == SEQUENCE).then_some((content, rest))
}

/// Tag and content of the DER element at the start of `der`, and what follows it (X.690 8.1).
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let length = bytes.iter().try_fold(0_usize, |length, byte| {
            length.checked_mul(256)?.checked_add(usize::from(*byte))
        })?;
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}
