//! How bigiron speaks HTTP: with the certificates that the machine trusts, and only as long as a
//! server is not silent.
//!
//! Certificates are those of `/etc/ssl/certs`, `SSL_CERT_FILE` and `SSL_CERT_DIR`, as
//! rustls-native-certs finds them; proxies are those of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.

use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Name that servers see.
const USER_AGENT: &str = concat!("bigiron/", env!("CARGO_PKG_VERSION"));

/// Returns what sends requests. A status is no error. A server may be silent for `silence`, in
/// either direction, and may redirect a request `redirects` times; after that its redirection is
/// the answer.
pub fn agent(silence: Duration, redirects: u32) -> ureq::Agent {
    // A broken file among them costs its own certificates only.
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted: Vec<_> = trusted
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&trusted))
        .build();
    let config = ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(redirects)
        .max_redirects_will_error(false)
        .user_agent(USER_AGENT)
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(silence))
        .timeout_per_write(Some(silence))
        .build();
    config.new_agent()
}
