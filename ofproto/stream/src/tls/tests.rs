//! Handshakes between two ends of one process, with certificates made for the occasion.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{ConnectError, Listener, Remote, connect};

/// A CA certificate in a file, and what signs with it.
struct Authority {
    path: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let path = directory.join(format!("{name}.pem"));
        fs::write(&path, issuer.pem()).unwrap();
        Self { path, issuer }
    }

    /// Settings of a peer called `name`, with a certificate of this authority, that trusts `ca`.
    fn peer(&self, directory: &Path, name: &str, ca: CaCertificate) -> TlsSettings {
        // Like the certificates of ovs-pki, it names no host that anybody connects to.
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let settings = TlsSettings {
            private_key: directory.join(format!("{name}-key.pem")),
            certificate: directory.join(format!("{name}-cert.pem")),
            ca_certificate: ca,
            peer_ca_certificate: None,
            protocols: Protocols::default(),
            server_name: None,
        };
        fs::write(&settings.private_key, key.serialize_pem()).unwrap();
        fs::write(&settings.certificate, certificate.pem()).unwrap();
        settings
    }
}

struct Fixture {
    directory: TempDir,
    ours: Authority,
    other: Authority,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ours = Authority::new(directory.path(), "ours");
        let other = Authority::new(directory.path(), "other");
        Self { directory, ours, other }
    }

    fn trust_ours(&self) -> CaCertificate {
        CaCertificate::File(self.ours.path.clone())
    }

    fn server(&self) -> TlsSettings {
        self.ours.peer(self.directory.path(), "server", self.trust_ours())
    }

    fn client(&self) -> TlsSettings {
        self.ours.peer(self.directory.path(), "client", self.trust_ours())
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Listens with the settings of a server and gives where to connect.
async fn listen(server: TlsSettings) -> (Listener, Remote) {
    let passive = Remote::parse("pssl:0:127.0.0.1", None, Path::new("/")).unwrap();
    let listener = Listener::bind(&passive, Some(Arc::new(TlsConfig::new(server)))).await.unwrap();
    let active = format!("ssl:127.0.0.1:{}", listener.port().unwrap());
    (listener, Remote::parse(&active, None, Path::new("/")).unwrap())
}

/// Sends a word from client to server, which sends it back.
async fn talk(listener: &Listener, to: &Remote, client: &TlsConfig) -> Result<(), ConnectError> {
    let serve = async {
        loop {
            let mut stream = listener.accept().await.map_err(ConnectError::Io)?;
            assert!(stream.peer().starts_with("ssl:127.0.0.1:"), "{}", stream.peer());
            let mut word = [0; 4];
            match stream.read_exact(&mut word).await {
                Ok(_) => {
                    stream.write_all(&word).await?;
                    stream.shutdown().await?;
                    return Ok(());
                }
                // A client that only came to bootstrap closes the connection at once.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(ConnectError::Io(error)),
            }
        }
    };
    let speak = async {
        let mut stream = connect(to, Some(client)).await?;
        stream.write_all(b"ping").await?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await?;
        assert_eq!(rest, b"ping");
        Ok(())
    };
    tokio::try_join!(serve, speak).map(|_| ())
}

/// What comes of a client and a server with these settings.
fn outcome(server: TlsSettings, client: TlsSettings) -> String {
    run(async {
        let (listener, to) = listen(server).await;
        match talk(&listener, &to, &TlsConfig::new(client)).await {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    })
}

#[test]
fn each_side_trusts_its_own_authority_only() {
    let fixture = Fixture::new();
    let directory = fixture.directory.path();
    assert_eq!(outcome(fixture.server(), fixture.client()), "ok");
    let stranger = fixture.other.peer(directory, "stranger", fixture.trust_ours());
    let unknown = "invalid peer certificate: UnknownIssuer";
    assert_eq!(outcome(stranger.clone(), fixture.client()), unknown);
    assert_eq!(outcome(fixture.server(), stranger), unknown);
    let mut careless = fixture.other.peer(directory, "careless", CaCertificate::Unverified);
    assert_eq!(outcome(careless.clone(), careless.clone()), "ok");
    // A host name goes to the server, and needs not be in its certificate.
    careless.server_name = Some("example.org".to_owned());
    assert_eq!(outcome(careless.clone(), careless.clone()), "ok");
    careless.server_name = Some("not a name".to_owned());
    assert_eq!(
        outcome(careless.clone(), careless),
        "\"not a name\" is neither a host name nor an IP address"
    );
}

#[test]
fn protocol_versions_must_overlap() {
    let fixture = Fixture::new();
    let with = |settings: TlsSettings, protocols: &str| TlsSettings {
        protocols: protocols.parse().unwrap(),
        ..settings
    };
    for (server, client, expected) in [
        ("TLSv1.2", "TLSv1.2+", true),
        ("TLSv1.2+", "TLSv1.3", true),
        ("TLSv1.2", "TLSv1.3", false),
    ] {
        let result = outcome(with(fixture.server(), server), with(fixture.client(), client));
        assert_eq!(result == "ok", expected, "{server} {client}: {result}");
    }
}

#[test]
fn the_first_server_may_present_its_authority() {
    let fixture = Fixture::new();
    let stored = fixture.directory.path().join("stored.pem");
    let mut client = fixture.client();
    client.ca_certificate = CaCertificate::Bootstrap(stored.clone());
    let mut server = fixture.server();
    assert_eq!(
        outcome(server.clone(), client.clone()),
        "could not bootstrap CA cert: the last of 1 certificates received is not self-signed, so \
         the peer seems not to send its CA certificate"
    );
    assert!(!stored.exists());

    server.peer_ca_certificate = Some(fixture.ours.path.clone());
    assert_eq!(outcome(server.clone(), client.clone()), "ok");
    let read = |path: &Path| CertificateDer::from_pem_file(path).unwrap();
    assert_eq!(read(&stored), read(&fixture.ours.path));

    // From now on nobody else is trusted.
    let directory = fixture.directory.path();
    let stranger = fixture.other.peer(directory, "stranger", CaCertificate::Unverified);
    assert_eq!(outcome(stranger, client.clone()), "invalid peer certificate: UnknownIssuer");

    client.ca_certificate = CaCertificate::Bootstrap("/nonexistent/ca.pem".into());
    assert_eq!(
        outcome(server.clone(), client),
        "could not bootstrap CA cert: creating /nonexistent/ca.pem failed: No such file or \
         directory"
    );
    server.ca_certificate = CaCertificate::Bootstrap("/nonexistent/ca.pem".into());
    assert_eq!(
        outcome(server, fixture.client()),
        "rejecting SSL/TLS connection: CA certificate /nonexistent/ca.pem is not bootstrapped yet"
    );
}

#[test]
fn changed_files_are_read_again() {
    let fixture = Fixture::new();
    let client = TlsConfig::new(fixture.client());
    run(async {
        let (listener, to) = listen(fixture.server()).await;
        talk(&listener, &to, &client).await.unwrap();
        let stranger =
            fixture.other.peer(fixture.directory.path(), "client", CaCertificate::Unverified);
        assert_eq!(stranger.private_key, client.settings().private_key);
        let error = talk(&listener, &to, &client).await.unwrap_err();
        assert_eq!(error.to_string(), "invalid peer certificate: UnknownIssuer");
        fixture.client();
        talk(&listener, &to, &client).await.unwrap();
    });
}

#[test]
fn bad_files_are_named() {
    let fixture = Fixture::new();
    let directory = fixture.directory.path();
    let good = fixture.client();
    let other = fixture.other.peer(directory, "stranger", fixture.trust_ours());
    let file = |name: &str, content: &str| {
        let path = directory.join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let missing = PathBuf::from("/nonexistent/key.pem");
    let empty = file("empty.pem", "");
    let damaged =
        file("damaged.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    let nonsense =
        file("nonsense.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let cases = [
        (
            TlsSettings { private_key: missing, ..good.clone() },
            "failed to open /nonexistent/key.pem for reading: No such file or directory".to_owned(),
        ),
        (
            TlsSettings { private_key: empty.clone(), ..good.clone() },
            format!("{}: no private key in PEM form found", empty.display()),
        ),
        (
            TlsSettings { certificate: empty.clone(), ..good.clone() },
            format!("{}: no certificate in PEM form found", empty.display()),
        ),
        (
            TlsSettings { peer_ca_certificate: Some(damaged.clone()), ..good.clone() },
            format!("{}: malformed PEM: ", damaged.display()),
        ),
        (
            TlsSettings { ca_certificate: CaCertificate::File(nonsense.clone()), ..good.clone() },
            format!("{}: bad CA certificate: ", nonsense.display()),
        ),
        (
            TlsSettings { private_key: other.private_key.clone(), ..good.clone() },
            format!(
                "private key {} does not suit certificate {}: ",
                other.private_key.display(),
                good.certificate.display()
            ),
        ),
    ];
    for (settings, message) in cases {
        let error = TlsConfig::new(settings).client().unwrap_err().to_string();
        assert!(error.starts_with(&message), "{error}");
    }
}
