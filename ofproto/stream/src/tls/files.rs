//! Reading keys and certificates from PEM files, and noticing when the files change.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls_pki_types::pem::{Error, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// What a file looked like when it was read; `None` when it did not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<(SystemTime, u64)>);

impl Stamp {
    pub(super) fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self(metadata.and_then(|metadata| Some((metadata.modified().ok()?, metadata.len()))))
    }
}

pub(super) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        Error::NoItemsFound => TlsError::Missing { path: path.to_owned(), wanted: "private key" },
        error => TlsError::Pem { path: path.to_owned(), cause: error.to_string() },
    })
}

/// Reads one or more certificates.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::Pem { path: path.to_owned(), cause: error.to_string() })?;
    if certificates.is_empty() {
        return Err(TlsError::Missing { path: path.to_owned(), wanted: "certificate" });
    }
    Ok(certificates)
}

pub(super) fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots
            .add(certificate)
            .map_err(|source| TlsError::CaCertificate { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}
