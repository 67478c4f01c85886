//! `bigiron triage row`: what one dump or log tells of, as a row of the table.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_fleet::{FRONT, Row};
use bigiron_inspect::signature::RULES_VERSION;
use bigiron_inspect::{LogFacts, LogReader, Overview, Signature};
use clap::Args;

use super::object::{self, Opened as Object};
use crate::arguments::SourceArguments;
use crate::memory_limit::ReadBuffers;
use crate::objects;
use crate::sandbox::Needs;
use crate::source::{Opened, Reading, parts_of};
use crate::tell::print;

/// Buffer size; a log is read once, from its beginning to its end.
const BUFFER: usize = 64 << 10;

/// `bigiron triage row`.
#[derive(Debug, Args)]
pub struct RowArguments {
    /// The dump, in any format, all parts of a split or striped one separated by commas; or a
    /// text log
    dump: PathBuf,
    /// Leave the name of the host out
    #[arg(long)]
    no_host: bool,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

/// Prints the row as one line of JSON.
pub fn run(arguments: &RowArguments) -> anyhow::Result<()> {
    let row = if objects::is_object(&arguments.dump) {
        of_object(arguments)?
    } else {
        match open_text(&arguments.dump)? {
            Some(log) => {
                let options = arguments.source.reader;
                options.time.begin(std::slice::from_ref(&arguments.dump))?;
                of_log(log, arguments)?
            }
            None => of_dump(Reading::open(
                &parts_of(&arguments.dump),
                &arguments.source,
            )?)?,
        }
    };
    let row = Row {
        path: arguments.dump.display().to_string(),
        rules_version: RULES_VERSION.into(),
        ..row
    };
    let row = match arguments.no_host {
        true => without_host(row),
        false => row,
    };
    print(&(serde_json::to_string(&row)? + "\n"))
}

/// Opens a text; `None` for a dump, and for what cannot be opened, whose reason is found then.
fn open_text(path: &Path) -> anyhow::Result<Option<File>> {
    // Opening a pipe would wait.
    let Some(mut file) = path.is_file().then(|| File::open(path).ok()).flatten() else {
        return Ok(None);
    };
    let mut front = Vec::new();
    let read = file.by_ref().take(FRONT as u64).read_to_end(&mut front);
    if read.is_err() || !bigiron_fleet::is_text(&front) {
        return Ok(None);
    }
    file.rewind()
        .with_context(|| format!("{}: cannot read it twice", path.display()))?;
    Ok(Some(file))
}

/// The row of an object, with what it cost.
fn of_object(arguments: &RowArguments) -> anyhow::Result<Row> {
    let (opened, cost) = object::open(&arguments.dump, &arguments.source)?;
    let row = match opened {
        Object::Log(log) => of_log(log, arguments)?,
        Object::Dump(dump) => of_dump(dump)?,
    };
    let usage = cost.usage();
    let number = |number: u64| i64::try_from(number).ok();
    Ok(Row {
        bytes_fetched: usage.and_then(|usage| number(usage.bytes)),
        requests: usage.and_then(|usage| number(usage.requests)),
        ..row
    })
}

fn of_log(log: impl Read, arguments: &RowArguments) -> anyhow::Result<Row> {
    let path = &arguments.dump;
    let options = arguments.source.reader;
    let buffers = ReadBuffers {
        helpers: 1,
        cache: 0,
    };
    options.confine(&[], &Needs::Nothing, buffers);
    let mut text = BufReader::with_capacity(BUFFER, log);
    let read = LogReader::read_text(&mut text);
    let (signature, facts) = read.with_context(|| format!("{}: cannot read it", path.display()))?;
    Ok(Row {
        kind: Row::LOG.to_owned(),
        ..with_signature(with_facts(Row::default(), facts), signature)
    })
}

fn of_dump(reading: Reading<'_>) -> anyhow::Result<Row> {
    let opened = reading.parse(&Needs::Nothing)?;
    let memory = opened.source.memory();
    let row = Row {
        kind: Row::DUMP.to_owned(),
        format: Some(memory.kind().to_owned()),
        complete: Some(opened.source.damage().is_none()),
        damage: opened.source.damage().map(ToOwned::to_owned),
        dump_level: Some(memory.dump_level().into()),
        ..Row::default()
    };
    match of_kernel(&opened, row.clone()) {
        Ok(row) => Ok(row),
        // A dump that is cut may lack its kernel; what it is, is known.
        Err(error) => Ok(Row {
            errors: vec![format!("{error:#}")],
            ..row
        }),
    }
}

fn of_kernel(opened: &Opened, row: Row) -> anyhow::Result<Row> {
    if opened.host()?.is_some() {
        anyhow::bail!(
            "a dump of a Xen host, whose crash has no signature; bigiron info shows why it stopped"
        );
    }
    opened.with_kernel(|kernel| {
        let (overview, facts) = Overview::with_log_facts(kernel);
        Ok(with_overview(with_facts(row, facts), overview))
    })
}

/// Adds what the log says.
fn with_facts(row: Row, facts: LogFacts) -> Row {
    Row {
        kernel_release: facts.release,
        kernel_version: facts.version,
        modules: facts.modules,
        tainted: facts.tainted,
        machine: facts.machine,
        host: facts.host,
        uptime_seconds: facts.uptime.and_then(|seconds| seconds.try_into().ok()),
        first_lines: facts.first_lines,
        ..row
    }
}

/// Adds what the dump says, which is surer than its log.
fn with_overview(row: Row, overview: Overview) -> Row {
    let Overview { kernel, memory, .. } = overview;
    let bytes = memory
        .pages
        .map(|pages| pages.saturating_mul(memory.page_size));
    let text = |text: String| (!text.is_empty()).then_some(text);
    let row = Row {
        complete: Some(overview.dump.complete),
        damage: overview.dump.damage,
        kernel_release: text(kernel.release),
        kernel_version: text(kernel.version),
        architecture: text(kernel.machine),
        build_id: kernel.build_id,
        host: text(kernel.host),
        crash_time: overview
            .crash_time
            .map(|seconds| seconds.saturating_mul(1000)),
        memory_bytes: bytes.and_then(|bytes| bytes.try_into().ok()),
        cpus: overview.cpus.and_then(|cpus| cpus.try_into().ok()),
        errors: overview.warnings,
        ..row
    };
    with_signature(row, overview.signature)
}

fn with_signature(row: Row, signature: Option<Signature>) -> Row {
    let Some(signature) = signature else {
        return row;
    };
    Row {
        title: Some(signature.title),
        alternative_titles: signature.alternative_titles,
        fingerprint: signature.fingerprint,
        frames: signature.frames,
        corrupted: Some(signature.corrupted),
        ..row
    }
}

/// Takes the host's name out, also where the log repeats it.
fn without_host(row: Row) -> Row {
    let Some(host) = row.host.as_deref().filter(|host| !host.is_empty()) else {
        return row;
    };
    let without = |text: &String| text.replace(host, "HOST");
    Row {
        first_lines: row.first_lines.iter().map(without).collect(),
        errors: row.errors.iter().map(without).collect(),
        damage: row.damage.as_ref().map(without),
        host: None,
        ..row
    }
}
