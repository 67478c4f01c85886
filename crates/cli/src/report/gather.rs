//! Gathers the data of the page from a dump.

use std::time::Duration;

use bigiron_helpers::within;
use bigiron_inspect::{Overview, PageMap, Program, page_class};
use bigiron_kernel::page::KindBits;
use bigiron_kernel::{IoMethod, Kernel};
use serde::Serialize;

use crate::report::Part;
use crate::report::domains::Domains;
use crate::report::findings::Findings;
use crate::report::log::LogLines;
use crate::report::map::Map;
use crate::report::time_line::{self, TimeLine};
use crate::report::users::Users;

/// Time after which the search for findings ends with those that were found.
const MAX_SEARCH: Duration = Duration::from_secs(60);

/// Options of a report.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Name of the dump: the file name.
    pub name: String,
    /// I/O method for the source.
    pub io: IoMethod,
    /// The time line for a dump without its own.
    pub time_line: Option<TimeLine>,
}

/// The data of the page.
#[derive(Debug, Serialize)]
pub struct Report {
    name: String,
    made_by: &'static str,
    overview: Overview,
    findings: Part<Findings>,
    map: Part<Map>,
    users: Part<Users>,
    time_line: Part<TimeLine>,
    domains: Part<Domains>,
    log: Part<LogLines>,
}

impl Report {
    /// Gathers the data. Data that cannot be found is replaced by the reason, so that a damaged
    /// dump still has a report.
    pub fn of(kernel: &Kernel, options: &ReportOptions) -> Self {
        let program = Program::open(kernel);
        let bits = match &program {
            Ok(program) => page_class::kind_bits(program).unwrap_or_default(),
            Err(_) => KindBits::default(),
        };
        let map = PageMap::of(kernel, bits, options.io);
        let users = match &program {
            Ok(program) => Part::Known(Users::of(program, map.as_ref().ok())),
            Err(error) => Part::not_known(error),
        };
        let domains = match &program {
            Ok(program) => Domains::of(&program.renewed()).into(),
            Err(error) => Part::not_known(error),
        };
        let findings = match &program {
            Ok(program) => Part::Known(within(Some(MAX_SEARCH), |stop| {
                Findings::of(&program.renewed(), stop)
            })),
            Err(error) => Part::not_known(error),
        };
        let time_line = time_line::in_dump(kernel).or_else(|| options.time_line.clone());
        let time_line = time_line.map_or_else(
            || Part::not_known("the dump has no time line of its own; only vmdumps do"),
            Part::Known,
        );
        Self {
            name: options.name.clone(),
            made_by: concat!("bigiron ", env!("CARGO_PKG_VERSION")),
            overview: Overview::of(kernel),
            findings,
            map: map.map(|map| Map::of(&map)).into(),
            users,
            time_line,
            domains,
            log: LogLines::of(kernel).into(),
        }
    }
}
