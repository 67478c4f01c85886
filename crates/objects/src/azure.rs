//! Azure Blob Storage: account, server and credentials, and how its requests are signed.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use md5::{Digest as _, Md5};

use crate::call::Call;
use crate::credentials::{ManagedIdentity, Secret, Token};
use crate::dialect::{Dialect, Signed, uri};
use crate::endpoint::{Endpoint, Target};
use crate::environment::Environment;
use crate::error::ObjectError;
use crate::location::Location;
use crate::sign::{encode, hmac, query};

/// The version of the protocol that all of this is of.
const VERSION: &str = "2021-12-02";
/// Attempts at a request.
const ATTEMPTS: u32 = 6;
/// The end of the names of Microsoft's servers.
const SUFFIX: &str = "core.windows.net";
/// What the emulators of the service are set up with (Azurite, "Default storage account").
const EMULATOR: &str = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;\
AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;\
BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;";

/// An account.
#[derive(Debug)]
pub struct Azure {
    account: String,
    endpoint: Endpoint,
    identity: Identity,
}

/// How requests show who sends them.
#[derive(Debug)]
enum Identity {
    /// By a signature of the account's key.
    Key(Secret<Vec<u8>>),
    /// By words of the query that somebody else has signed, without a question mark.
    Signature(Secret<String>),
    /// By a token for the identity of this virtual machine.
    Machine(ManagedIdentity, Mutex<Option<Token>>),
}

impl Azure {
    /// Reads the settings, with the names that the Azure command line uses: a connection string,
    /// or the account and its key, a shared access signature, or the machine's identity.
    ///
    /// # Errors
    ///
    /// One is wrong, or no account is named.
    pub fn new(environment: &Environment) -> Result<Self, ObjectError> {
        let connection = environment.get("AZURE_STORAGE_CONNECTION_STRING");
        let connection = match connection {
            Some(text) if text.starts_with("UseDevelopmentStorage=true") => EMULATOR,
            text => text.unwrap_or_default(),
        };
        let word = |name: &str| {
            let mut words = connection
                .split(';')
                .filter_map(|word| word.split_once('='));
            words.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
        };
        let account = word("AccountName").or_else(|| environment.get("AZURE_STORAGE_ACCOUNT"));
        let account = account.ok_or_else(|| {
            ObjectError::Settings(
                "no account of az:// is named: set AZURE_STORAGE_ACCOUNT, or \
                 AZURE_STORAGE_CONNECTION_STRING"
                    .to_owned(),
            )
        })?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if account.is_empty() || !account.bytes().all(is_plain) {
            return Err(ObjectError::Settings(
                "AZURE_STORAGE_ACCOUNT, or AccountName of the connection string, is no name of an \
                 account, which is of letters and digits"
                    .to_owned(),
            ));
        }
        let named =
            word("BlobEndpoint").or_else(|| environment.get("AZURE_STORAGE_SERVICE_ENDPOINT"));
        let endpoint = named.map_or_else(
            || {
                let suffix = word("EndpointSuffix").unwrap_or(SUFFIX);
                let scheme = word("DefaultEndpointsProtocol").unwrap_or("https");
                format!("{scheme}://{account}.blob.{suffix}")
            },
            ToOwned::to_owned,
        );
        let setting = "AZURE_STORAGE_SERVICE_ENDPOINT, or BlobEndpoint of the connection string,";
        let endpoint = Endpoint::parse(&endpoint, setting)?;
        let key = word("AccountKey").or_else(|| environment.get("AZURE_STORAGE_KEY"));
        let signature = word("SharedAccessSignature");
        let signature = signature.or_else(|| environment.get("AZURE_STORAGE_SAS_TOKEN"));
        let identity = match (key, signature) {
            (Some(key), _) => Identity::Key(Secret(BASE64.decode(key).map_err(|_| {
                ObjectError::Settings(
                    "AZURE_STORAGE_KEY, or AccountKey of the connection string, is no key: it is \
                     not base64"
                        .to_owned(),
                )
            })?)),
            (None, Some(signature)) => {
                let signature = signature.trim_start_matches('?');
                Identity::Signature(Secret(signature.to_owned()))
            }
            (None, None) => Identity::Machine(ManagedIdentity::new(environment), Mutex::new(None)),
        };
        Ok(Self {
            account: account.to_owned(),
            endpoint,
            identity,
        })
    }

    fn token(
        &self,
        identity: &ManagedIdentity,
        held: &Mutex<Option<Token>>,
    ) -> Result<String, ObjectError> {
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = held.as_ref().filter(|token| token.is_fresh()) {
            return Ok(token.text.0.clone());
        }
        let token = identity.token()?;
        Ok(held.insert(token).text.0.clone())
    }
}

impl Dialect for Azure {
    fn target(&self, location: &Location) -> Target {
        let (container, key) = (&location.bucket, encode(&location.key, true));
        self.endpoint.target(&match key.as_str() {
            "" => format!("/{container}"),
            key => format!("/{container}/{key}"),
        })
    }

    fn sign<'c>(&self, call: &Call<'c>, target: &Target) -> Result<Signed<'c>, ObjectError> {
        let time = Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
        let mut headers = call.headers.clone();
        headers.push(("x-ms-date", time.to_string()));
        headers.push(("x-ms-version", VERSION.to_owned()));
        if !call.body.is_empty() {
            // The server compares, and refuses what has changed on the way.
            headers.push(("content-md5", BASE64.encode(Md5::digest(call.body))));
            headers.push(("content-type", "application/octet-stream".to_owned()));
        }
        let mut sent = query(&call.query);
        match &self.identity {
            Identity::Key(key) => {
                let text = text_to_sign(call, &headers, &self.account, &target.path);
                let signature = BASE64.encode(hmac(&key.0, text.as_bytes()));
                let value = format!("SharedKey {}:{signature}", self.account);
                headers.push(("authorization", value));
            }
            Identity::Signature(signature) => {
                if !sent.is_empty() {
                    sent.push('&');
                }
                sent.push_str(&signature.0);
            }
            Identity::Machine(identity, held) => {
                let token = self.token(identity, held)?;
                headers.push(("authorization", format!("Bearer {token}")));
            }
        }
        Ok(Signed {
            uri: uri(target, &sent),
            headers,
        })
    }

    fn renew(&self) -> bool {
        match &self.identity {
            Identity::Machine(_, held) => {
                *held.lock().unwrap_or_else(PoisonError::into_inner) = None;
                true
            }
            Identity::Key(_) | Identity::Signature(_) => false,
        }
    }

    fn attempts(&self) -> u32 {
        ATTEMPTS
    }

    fn host(&self) -> String {
        self.endpoint.host.clone()
    }

    fn directories(&self) -> &[PathBuf] {
        &[]
    }
}

/// What the account's key signs ("Authorize with Shared Key", version 2009-09-19 and later);
/// `path` is that of the request.
fn text_to_sign(call: &Call<'_>, headers: &[(&str, String)], account: &str, path: &str) -> String {
    /// Headers whose values are signed, in this order, empty or not. The date is x-ms-date.
    const SIGNED: [&str; 11] = [
        "content-encoding",
        "content-language",
        "content-length",
        "content-md5",
        "content-type",
        "date",
        "if-modified-since",
        "if-match",
        "if-none-match",
        "if-unmodified-since",
        "range",
    ];
    let mut text = format!("{}\n", call.method);
    for name in SIGNED {
        if name == "content-length" && !call.body.is_empty() {
            text.push_str(&call.body.len().to_string());
        }
        let value = headers.iter().find(|(found, _)| *found == name);
        text.push_str(value.map_or("", |(_, value)| value.as_str()));
        text.push('\n');
    }
    let mut own: Vec<_> = headers
        .iter()
        .filter(|(name, _)| name.starts_with("x-ms-"))
        .collect();
    own.sort();
    for (name, value) in own {
        text.push_str(&format!("{name}:{value}\n"));
    }
    text.push_str(&format!("/{account}{path}"));
    let mut words: Vec<_> = call.query.iter().collect();
    words.sort();
    for (name, value) in words {
        text.push_str(&format!("\n{name}:{value}"));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    fn azure(pairs: &[(&str, &str)]) -> Result<Azure, ObjectError> {
        Azure::new(&Environment::of(pairs.iter().copied()))
    }

    #[test]
    fn accounts_of_microsoft_are_in_the_host() {
        let found = azure(&[
            ("AZURE_STORAGE_ACCOUNT", "ours"),
            ("AZURE_STORAGE_KEY", "AAAA"),
        ]);
        let location: Location = "az://crashes/a b/vmcore".parse().unwrap();
        let target = found.unwrap().target(&location);
        assert_eq!(target.server, "https://ours.blob.core.windows.net");
        assert_eq!(target.path, "/crashes/a%20b/vmcore");
    }

    #[test]
    fn connection_strings_say_all() {
        let text = "AccountName=ours;AccountKey=AAE=;BlobEndpoint=http://127.0.0.1:1/ours";
        let found = azure(&[("AZURE_STORAGE_CONNECTION_STRING", text)]).unwrap();
        assert!(matches!(&found.identity, Identity::Key(key) if key.0 == [0, 1]));
        assert_eq!(found.host(), "127.0.0.1:1");
        assert!(!format!("{found:?}").contains("[0, 1]"));
        let emulator = [(
            "AZURE_STORAGE_CONNECTION_STRING",
            "UseDevelopmentStorage=true",
        )];
        assert_eq!(azure(&emulator).unwrap().account, "devstoreaccount1");
    }

    #[test]
    fn wrong_settings_are_refused() {
        let account = ("AZURE_STORAGE_ACCOUNT", "ours");
        for wrong in [
            &[("AZURE_STORAGE_KEY", "AAAA")][..],
            &[account, ("AZURE_STORAGE_KEY", "no base64!")],
            &[("AZURE_STORAGE_ACCOUNT", "a/b")],
            &[account, ("AZURE_STORAGE_SERVICE_ENDPOINT", "ours")],
        ] {
            assert!(azure(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn text_to_sign_is_as_published() {
        // The example of "Authorize with Shared Key" for "Get Container Metadata".
        let location: Location = "az://mycontainer".parse().unwrap();
        let call = Call {
            query: vec![
                ("comp", "metadata".to_owned()),
                ("restype", "container".to_owned()),
                ("timeout", "20".to_owned()),
            ],
            ..Call::new("get it", "GET", &location)
        };
        let headers = [
            ("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT".to_owned()),
            ("x-ms-version", "2015-02-21".to_owned()),
        ];
        assert_eq!(
            text_to_sign(&call, &headers, "myaccount", "/mycontainer"),
            "GET\n\n\n\n\n\n\n\n\n\n\n\n\
             x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n\
             /myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"
        );
    }
}
