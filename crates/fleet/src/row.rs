//! A row of the table.

use serde::{Deserialize, Serialize};

/// Version of the columns. It is stated in every file; columns are added with a new version, and
/// none changes its meaning.
pub const SCHEMA_VERSION: u32 = 2;

/// What a dump or a log tells of. The fields are the columns of the table, in this order;
/// `columns.rs` has their types, and docs/fleet.md describes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Row {
    /// Where it lies, as the user named it; several files of one dump are separated by commas.
    pub path: String,
    /// `dump`, `log`, or `unknown` if it could not be opened.
    pub kind: String,
    /// Format of a dump.
    pub format: Option<String>,
    /// Size of its files, in bytes.
    pub bytes: i64,
    /// Last change of its files: milliseconds since 1970.
    pub modified: i64,
    /// False if parts of a dump are missing.
    pub complete: Option<bool>,
    /// What is missing.
    pub damage: Option<String>,
    /// The dump level.
    pub dump_level: Option<i64>,
    /// Title of the crash.
    pub title: Option<String>,
    /// Its alternative titles.
    pub alternative_titles: Vec<String>,
    /// Its fingerprint.
    pub fingerprint: Option<String>,
    /// The blamed function and its callers.
    pub frames: Vec<String>,
    /// True if the report is cut or mixed with another.
    pub corrupted: Option<bool>,
    /// Version of the rules for signatures.
    pub rules_version: i64,
    /// The kernel, as `uname -r`.
    pub kernel_release: Option<String>,
    /// The kernel, as `uname -v`.
    pub kernel_version: Option<String>,
    /// Architecture, as `uname -m`.
    pub architecture: Option<String>,
    /// Build id of the kernel.
    pub build_id: Option<String>,
    /// Modules that the report lists.
    pub modules: Vec<String>,
    /// Taint letters; empty if the kernel was not tainted.
    pub tainted: Option<String>,
    /// Vendor and product of the machine.
    pub machine: Option<String>,
    /// Name of the host.
    pub host: Option<String>,
    /// When it crashed: milliseconds since 1970.
    pub crash_time: Option<i64>,
    /// Seconds from boot to the report.
    pub uptime_seconds: Option<i64>,
    /// RAM in bytes.
    pub memory_bytes: Option<i64>,
    /// CPUs that saved their registers.
    pub cpus: Option<i64>,
    /// The first lines of the report.
    pub first_lines: Vec<String>,
    /// What could not be read, and why.
    pub errors: Vec<String>,
    /// Bytes that were fetched of an object, with those of requests that failed. Since version 2.
    pub bytes_fetched: Option<i64>,
    /// Requests for an object. Since version 2.
    pub requests: Option<i64>,
}

impl Row {
    /// Kind of what could not be opened.
    pub const UNKNOWN: &str = "unknown";
    /// Kind of a text log.
    pub const LOG: &str = "log";
    /// Kind of a dump.
    pub const DUMP: &str = "dump";

    /// Returns true if there is nothing but the reason why the dump could not be described.
    pub fn has_failed(&self) -> bool {
        self.kind == Self::UNKNOWN
    }

    /// When the machine crashed, as far as known: else the last change of the file.
    pub fn time(&self) -> i64 {
        self.crash_time.unwrap_or(self.modified)
    }
}
