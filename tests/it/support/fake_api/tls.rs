//! TLS for the server on a socket.
//!
//! The certificates are valid for 100 years. The authority's key was deleted, so it cannot sign others.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

const CA: &str = include_str!("tls/ca.crt");
const SERVER: (&str, &str) = (include_str!("tls/server.crt"), include_str!("tls/server.key"));
const CLIENT: (&str, &str) = (include_str!("tls/client.crt"), include_str!("tls/client.key"));

/// Accepts clients without a certificate, and clients with a certificate of our authority.
pub fn acceptor() -> TlsAcceptor {
    let certificate =
        |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate in the fixture");
    let mut roots = RootCertStore::empty();
    roots.add(certificate(CA)).expect("an authority in the fixture");
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .allow_unauthenticated()
        .build()
        .expect("a verifier with one authority");
    let key = PrivateKeyDer::from_pem_slice(SERVER.1.as_bytes()).expect("a key in the fixture");
    let config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate(SERVER.0)], key)
        .expect("a key that belongs to its certificate");
    TlsAcceptor::from(Arc::new(config))
}

/// Writes the files for a client: `ca.crt`, `client.crt`, `client.key`.
pub fn write_client_files(dir: &Path) {
    for (name, content) in [("ca.crt", CA), ("client.crt", CLIENT.0), ("client.key", CLIENT.1)] {
        std::fs::write(dir.join(name), content).expect("a file that can be written");
    }
}
