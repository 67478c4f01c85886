//! How bigiron speaks HTTP: with the certificates that the machine trusts, and only as long as a
//! server is not silent.
//!
//! Certificates are those of `/etc/ssl/certs`, `SSL_CERT_FILE` and `SSL_CERT_DIR`, as
//! rustls-native-certs finds them; proxies are those of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.

use std::sync::Arc;
use std::time::Duration;

use ureq::config::ConfigBuilder;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Name that servers see.
const USER_AGENT: &str = concat!("bigiron/", env!("CARGO_PKG_VERSION"));

/// TLS with the authorities whose certificates this machine trusts.
#[derive(Clone, Debug)]
pub struct Trust {
    tls: TlsConfig,
    authorities: usize,
}

impl Trust {
    /// Reads the certificates.
    pub fn of_machine() -> Self {
        // A broken file among them costs its own certificates only.
        let trusted = rustls_native_certs::load_native_certs().certs;
        let trusted: Vec<_> = trusted
            .iter()
            .map(|certificate| Certificate::from_der(certificate).to_owned())
            .collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Self {
            tls: TlsConfig::builder()
                .provider(TlsProvider::Rustls)
                .unversioned_rustls_crypto_provider(provider)
                .root_certs(RootCerts::new_with_certs(&trusted))
                .build(),
            authorities: trusted.len(),
        }
    }

    /// Number of the authorities: without any, no server can prove who it is.
    pub fn authorities(&self) -> usize {
        self.authorities
    }

    /// Returns the settings of what sends requests: a status is no error, and a redirection is an
    /// answer. A server may be silent for `silence`, in either direction.
    pub fn settings(&self, silence: Duration) -> ConfigBuilder<AgentScope> {
        ureq::Agent::config_builder()
            .tls_config(self.tls.clone())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(USER_AGENT)
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(silence))
            .timeout_per_write(Some(silence))
    }
}
