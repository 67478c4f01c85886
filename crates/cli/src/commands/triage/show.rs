//! `bigiron triage show`: the buckets of a table.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_dump::{FileOutput, Output};
use bigiron_fleet::{Bucket, Buckets, Counter, read_table, table_files};
use clap::Args;
use serde::Serialize;

use super::dates::{day, parse_date};
use super::members;
use crate::commands::info::page::Page;
use crate::report::{CRASHES, render};
use crate::size;
use crate::tell::{is_closed_pipe, print};

/// Kernels that a line names; JSON has all.
const SHOWN_KERNELS: usize = 2;
/// Titles of a host that a line names.
const SHOWN_TITLES: usize = 3;

/// `bigiron triage show`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ShowArguments {
    /// The directory of the table
    directory: PathBuf,
    /// Only crashes that were seen on this day for the first time, or later: 2026-11-25
    #[arg(long, value_name = "DATE", value_parser = parse_date)]
    since: Option<i64>,
    /// One bucket in full, with all its members: its title, or the first digits of its id
    #[arg(long, value_name = "TITLE|ID")]
    bucket: Option<String>,
    /// Print at most this many buckets, 0 for all; JSON and HTML have all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write an HTML page to this file, or to standard output for -
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "bucket"])]
    html: Option<PathBuf>,
    /// Replace the HTML file if it exists
    #[arg(long, requires = "html")]
    overwrite: bool,
}

const HELP: &str = "\
Crashes with one fingerprint or with meeting titles are one bucket. The bucket of most machines comes first; a machine \
is a host that is named. A crash without a time of its own counts at the last change of its file.

Examples:
  bigiron triage show crashes
  bigiron triage show crashes --since 2026-11-01
  bigiron triage show crashes --bucket 'BUG: soft lockup in foo'
  bigiron triage show crashes --html crashes.html";

/// What the page and JSON have besides the buckets.
#[derive(Serialize)]
struct Table<'t> {
    /// Version of this structure.
    version: u32,
    made_by: &'static str,
    #[serde(flatten)]
    buckets: &'t Buckets,
}

/// Shows a table.
pub fn run(arguments: &ShowArguments) -> anyhow::Result<()> {
    let files = table_files(&arguments.directory)?;
    anyhow::ensure!(
        !files.is_empty(),
        "{}: has no table; `bigiron triage SOURCE -o {0}` makes one",
        arguments.directory.display()
    );
    let mut counter = Counter::default();
    for file in &files {
        read_table(file, &mut |row| counter.add(row))?;
    }
    let mut buckets = counter.finish();
    if let Some(since) = arguments.since {
        buckets
            .buckets
            .retain(|bucket| bucket.seen.first >= Some(since));
    }
    if let Some(name) = &arguments.bucket {
        let bucket = buckets.find(name);
        let missing = || format!("{}: has no bucket {name}", arguments.directory.display());
        return members::run(bucket.with_context(missing)?, &files, arguments.json);
    }
    let table = Table {
        version: 1,
        made_by: concat!("bigiron ", env!("CARGO_PKG_VERSION")),
        buckets: &buckets,
    };
    if let Some(path) = &arguments.html {
        return write_html(path, &table, arguments.overwrite);
    }
    print(&match arguments.json {
        true => serde_json::to_string_pretty(&table)? + "\n",
        false => text(&buckets, arguments.limit),
    })
}

fn write_html(path: &Path, table: &Table<'_>, overwrite: bool) -> anyhow::Result<()> {
    let write = |out: &mut dyn Write| {
        let mut out = BufWriter::new(out);
        render(&CRASHES, table, &mut out)?;
        out.flush()
    };
    if path == Path::new("-") {
        return match write(&mut io::stdout().lock()) {
            Err(error) if !is_closed_pipe(&error) => Err(error.into()),
            _ => Ok(()),
        };
    }
    let output = FileOutput::create(path, overwrite)?;
    write(&mut output.file())
        .and_then(|()| output.finish())
        .inspect_err(|_| output.discard())
        .with_context(|| path.display().to_string())
}

fn text(found: &Buckets, limit: usize) -> String {
    let mut page = Page(String::new());
    let number = |count: u64| size::group(count);
    page.line("rows", &number(found.rows));
    page.line("machines", &number(found.machines as u64));
    page.line("buckets", &number(found.buckets.len() as u64));
    page.line(
        "others",
        &format!(
            "{} without a crash, {} could not be described",
            number(found.without_crash),
            number(found.failed)
        ),
    );
    let limit = if limit == 0 { usize::MAX } else { limit };
    let rows: Vec<_> = found.buckets.iter().take(limit).map(row).collect();
    let columns = [
        "machines",
        "crashes",
        "first seen",
        "last seen",
        "id",
        "kernels",
        "crash",
    ];
    page.table("Crashes", &columns, &[0, 1], &rows);
    let left = found.buckets.len() - rows.len();
    if left > 0 {
        page.heading(&format!("{left} more (--limit 0)"));
    }
    if !found.hosts.is_empty() {
        let hosts = found.hosts.iter().map(|host| {
            let titles = shortened(host.titles.iter().map(String::as_str), SHOWN_TITLES, "; ");
            let counts = [host.titles.len() as u64, host.crashes].map(number);
            vec![
                counts[0].clone(),
                counts[1].clone(),
                host.host.clone(),
                titles,
            ]
        });
        let hosts: Vec<_> = hosts.collect();
        let heading = "Hosts that crash in many ways, as with bad hardware";
        page.table(
            heading,
            &["titles", "crashes", "host", "of"],
            &[0, 1],
            &hosts,
        );
    }
    page.0
}

fn row(bucket: &Bucket) -> Vec<String> {
    let kernels = bucket.seen.kernels();
    let kernels = kernels.iter().map(|kernel| kernel.release.as_str());
    vec![
        size::group(bucket.seen.machines() as u64),
        size::group(bucket.seen.crashes),
        day(bucket.seen.first),
        day(bucket.seen.last),
        bucket.id.chars().take(8).collect(),
        shortened(kernels, SHOWN_KERNELS, ", "),
        bucket.title.clone(),
    ]
}

/// The first texts, and how many more there are.
fn shortened<'t>(texts: impl Iterator<Item = &'t str>, shown: usize, between: &str) -> String {
    let texts: Vec<&str> = texts.collect();
    let mut all = texts[..texts.len().min(shown)].join(between);
    if texts.len() > shown {
        let _ = write!(all, " and {} more", texts.len() - shown);
    }
    all
}
