//! Servers of debug information, which speak the protocol of debuginfod(8):
//! `GET /buildid/BUILDID/debuginfo`.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use bigiron_http::Trust;

use crate::build_id;
use crate::cache::Cache;
use crate::wanted::Wanted;

/// The servers, separated by spaces.
const URLS: &str = "DEBUGINFOD_URLS";
/// Seconds for which a server may be silent.
const TIMEOUT: &str = "DEBUGINFOD_TIMEOUT";
const DEFAULT_TIMEOUT: u64 = 90;
/// Servers pass a request on to others.
const REDIRECTS: u32 = 5;
/// Maximum size of a file; that of a kernel has less than 1 GiB.
const MAX_BYTES: u64 = 8 << 30;
const NOT_FOUND: u16 = 404;

/// Servers to ask.
#[derive(Clone, Debug)]
pub struct Servers {
    urls: Vec<String>,
    agent: ureq::Agent,
}

/// Why a server did not give a file.
enum Failure {
    /// It does not have it.
    Unknown,
    /// The reason.
    Failed(String),
}

impl Servers {
    /// Those that `DEBUGINFOD_URLS` names; `None` if it names none.
    pub fn of_environment() -> Option<Self> {
        let urls = std::env::var(URLS).unwrap_or_default();
        let seconds = std::env::var(TIMEOUT).ok();
        let seconds = seconds.and_then(|text| text.parse().ok());
        Self::new(&urls, seconds)
    }

    /// The servers of a list that is separated by spaces, which may be silent for `seconds`. Reads
    /// the certificates that this machine trusts. Servers that are not reached by HTTP are
    /// left out.
    pub fn new(urls: &str, seconds: Option<u64>) -> Option<Self> {
        let urls = urls.split_whitespace();
        let urls = urls.filter(|url| url.starts_with("http://") || url.starts_with("https://"));
        let urls: Vec<_> = urls
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        let seconds = seconds.filter(|seconds| *seconds > 0);
        (!urls.is_empty()).then(|| Self {
            urls,
            agent: agent(Duration::from_secs(seconds.unwrap_or(DEFAULT_TIMEOUT))),
        })
    }

    /// Their hosts.
    pub fn hosts(&self) -> Vec<String> {
        let uris = self.urls.iter().map(|url| url.parse::<ureq::http::Uri>());
        uris.filter_map(|uri| Some(uri.ok()?.host()?.to_owned()))
            .collect()
    }

    /// Fetches what is wanted from the first server that has it, into the cache.
    ///
    /// # Errors
    ///
    /// What each server said.
    pub(crate) fn fetch(&self, wanted: &Wanted, cache: &Cache) -> Result<(File, PathBuf), String> {
        let mut reasons = Vec::new();
        for url in &self.urls {
            match self.fetch_from(url, wanted, cache) {
                Ok(found) => return Ok(found),
                Err(Failure::Unknown) => reasons.push(format!("{url} does not have it")),
                Err(Failure::Failed(reason)) => reasons.push(format!("{url}: {reason}")),
            }
        }
        Err(reasons.join("; "))
    }

    fn fetch_from(
        &self,
        url: &str,
        wanted: &Wanted,
        cache: &Cache,
    ) -> Result<(File, PathBuf), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
        let address = format!("{url}/buildid/{}/debuginfo", wanted.build_id());
        let answer = self
            .agent
            .get(&address)
            .call()
            .map_err(|error| failed(&error))?;
        match answer.status().as_u16() {
            200 => {}
            NOT_FOUND => return Err(Failure::Unknown),
            status => return Err(Failure::Failed(format!("HTTP status {status}"))),
        }
        let body = answer
            .into_body()
            .into_with_config()
            .limit(MAX_BYTES)
            .reader();
        let in_cache =
            |error: &io::Error| Failure::Failed(format!("{}: {error}", cache.folder().display()));
        let mut file = cache.begin().map_err(|error| in_cache(&error))?;
        copy(body, file.as_file_mut()).map_err(|error| failed(&error))?;
        if !build_id::is_of(file.as_file(), wanted.build_id()) {
            return Err(Failure::Failed("its file has another build id".into()));
        }
        let opened = file.reopen().map_err(|error| in_cache(&error))?;
        let path = cache.keep(file, wanted).map_err(|error| in_cache(&error))?;
        Ok((opened, path))
    }
}

fn agent(silence: Duration) -> ureq::Agent {
    let settings = Trust::of_machine().settings(silence);
    settings.max_redirects(REDIRECTS).build().new_agent()
}

fn copy(mut body: impl Read, file: &mut File) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, file);
    io::copy(&mut body, &mut file)?;
    file.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn servers_are_those_of_the_list_that_speak_http() {
        let servers = Servers::new(
            "https://one.example/ file:///x  http://two.example:8002",
            None,
        );
        let servers = servers.unwrap();
        assert_eq!(servers.hosts(), ["one.example", "two.example"]);
        assert_eq!(servers.urls[0], "https://one.example");
        assert!(Servers::new("  ", None).is_none() && Servers::new("ftp://x", None).is_none());
    }
}
