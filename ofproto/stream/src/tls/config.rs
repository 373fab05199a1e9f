//! From settings to what the TLS library needs, again whenever a file changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tracing::warn;

use super::files::{Stamp, read_certificates, read_key, read_roots};
use super::verify::ChainVerifier;
use super::{Protocols, TlsError, bootstrap};

/// What an operator sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM file with our private key.
    pub private_key: PathBuf,
    /// PEM file with the certificate of that key, and intermediate ones if need be.
    pub certificate: PathBuf,
    /// Whom to trust.
    pub ca_certificate: CaCertificate,
    /// PEM file with further certificates to send, so that a peer can bootstrap its trust in us.
    pub peer_ca_certificate: Option<PathBuf>,
    /// Allowed protocol versions.
    pub protocols: Protocols,
    /// Name to send to servers in place of the host name.
    pub server_name: Option<String>,
}

/// Whom to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaCertificate {
    /// Anybody, which is a security risk.
    Unverified,
    /// Peers whose certificates the CA certificates in a PEM file signed.
    File(PathBuf),
    /// As `File`; when the file does not exist, the first server that is connected to may present
    /// the CA certificate to put there.
    Bootstrap(PathBuf),
}

/// TLS settings in use. Files are read when needed and read again when they change.
#[derive(Debug)]
pub struct TlsConfig {
    settings: TlsSettings,
    loaded: Mutex<Option<Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    stamps: Vec<Stamp>,
    client: Client,
    /// Absent until there is a CA certificate to check clients with.
    server: Option<Arc<ServerConfig>>,
}

/// What a connecting side uses.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) config: Arc<ClientConfig>,
    /// Whether servers go unverified only because their CA certificate is to be obtained.
    pub(crate) bootstrapping: bool,
}

impl TlsConfig {
    /// Takes the settings; no file is read yet.
    pub fn new(settings: TlsSettings) -> Self {
        if settings.ca_certificate == CaCertificate::Unverified {
            warn!(
                target: "stream_ssl",
                "Peer certificate validation disabled (this is a security risk)"
            );
        }
        Self { settings, loaded: Mutex::new(None) }
    }

    /// The settings.
    pub fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    pub(crate) fn server_name(&self) -> Option<&str> {
        self.settings.server_name.as_deref()
    }

    pub(crate) fn client(&self) -> Result<Client, TlsError> {
        self.with_loaded(|loaded| Ok(loaded.client.clone()))
    }

    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        self.with_loaded(|loaded| match (&loaded.server, self.ca_path()) {
            (Some(server), _) => Ok(Arc::clone(server)),
            (None, Some(path)) => Err(TlsError::NotBootstrapped(path.to_owned())),
            (None, None) => Err(TlsError::NotConfigured),
        })
    }

    /// Stores the CA certificate that a server presented.
    pub(crate) fn bootstrap(&self, chain: &[CertificateDer<'_>]) -> Result<(), TlsError> {
        bootstrap::store_ca(chain, self.ca_path().ok_or(TlsError::NotConfigured)?)
    }

    fn ca_path(&self) -> Option<&Path> {
        match &self.settings.ca_certificate {
            CaCertificate::Unverified => None,
            CaCertificate::File(path) | CaCertificate::Bootstrap(path) => Some(path),
        }
    }

    fn with_loaded<T>(
        &self,
        use_it: impl FnOnce(&Loaded) -> Result<T, TlsError>,
    ) -> Result<T, TlsError> {
        let settings = &self.settings;
        let files = [Some(settings.private_key.as_path()), Some(&settings.certificate)]
            .into_iter()
            .chain([self.ca_path(), settings.peer_ca_certificate.as_deref()]);
        let stamps: Vec<_> = files.flatten().map(Stamp::of).collect();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        match loaded.as_ref() {
            Some(loaded) if loaded.stamps == stamps => use_it(loaded),
            _ => use_it(loaded.insert(self.load(stamps)?)),
        }
    }

    fn load(&self, stamps: Vec<Stamp>) -> Result<Loaded, TlsError> {
        let settings = &self.settings;
        let key = read_key(&settings.private_key)?;
        let mut chain = read_certificates(&settings.certificate)?;
        if let Some(path) = &settings.peer_ca_certificate {
            chain.extend(read_certificates(path)?);
        }
        let (roots, bootstrapping) = match &settings.ca_certificate {
            CaCertificate::Unverified => (None, false),
            CaCertificate::Bootstrap(path) if !path.exists() => (None, true),
            CaCertificate::File(path) | CaCertificate::Bootstrap(path) => {
                (Some(Arc::new(read_roots(path)?)), false)
            }
        };
        let client = Client {
            config: self.client_config(roots.clone(), chain.clone(), key.clone_key())?,
            bootstrapping,
        };
        let server =
            if bootstrapping { None } else { Some(self.server_config(roots, chain, key)?) };
        Ok(Loaded { stamps, client, server })
    }

    fn client_config(
        &self,
        roots: Option<Arc<RootCertStore>>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.settings.protocols.versions())
            .map_err(|error| TlsError::Settings(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ChainVerifier { roots, algorithms }))
            .with_client_auth_cert(chain, key)
            .map_err(|source| self.key_error(source))?;
        Ok(Arc::new(config))
    }

    fn server_config(
        &self,
        roots: Option<Arc<RootCertStore>>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match roots {
            Some(roots) => {
                WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
                    .build()
                    .map_err(|error| TlsError::Settings(error.to_string()))?
            }
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.settings.protocols.versions())
            .map_err(|error| TlsError::Settings(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|source| self.key_error(source))?;
        Ok(Arc::new(config))
    }

    fn key_error(&self, source: rustls::Error) -> TlsError {
        TlsError::Key {
            key: self.settings.private_key.clone(),
            certificate: self.settings.certificate.clone(),
            source,
        }
    }
}
