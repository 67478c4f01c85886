//! `bigiron report`: a dump as one page for a browser.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::report::{MAX_TIME_LINE_BYTES, Report, ReportOptions, TimeLine, render};
use anyhow::Context;
use bigiron_dump::{FileOutput, Output};
use clap::Args;

use crate::arguments::SourceArguments;
use crate::source;
use crate::tell::is_closed_pipe;

/// Enough for the pieces in which JSON is written.
const BUFFER: usize = 256 << 10;

/// `bigiron report`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ReportArguments {
    /// The dump, in any format; all parts of a split or striped one, or - for standard input
    #[arg(required = true)]
    dump: Vec<PathBuf>,
    /// The page, a new file; - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the page if it is there
    #[arg(long)]
    overwrite: bool,
    /// What `bigiron dump --json` printed, for the time line of a dump that has none of its own
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// How the source is read.
    #[command(flatten)]
    source: SourceArguments,
}

const HELP: &str = "\
The page has all in itself and loads nothing: it can be kept, mailed, and opened without a network. \
What it shows comes out of the machine's memory, so treat it as the dump. It has at most a few MB, \
and up to 16 MiB of log.

Examples:
  bigiron report vmcore -o report.html
  bigiron dump --json /proc/vmcore /var/crash/vmcore > summary.json
  bigiron report /var/crash/vmcore --summary summary.json -o report.html";

/// Gathers what the page shows, and writes it.
pub fn run(arguments: &ReportArguments) -> anyhow::Result<()> {
    let time_line = arguments.summary.as_deref().map(read_time_line);
    let name = arguments.dump.first().and_then(|path| path.file_name());
    let options = ReportOptions {
        name: name.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        io: arguments.source.input.io.into(),
        time_line: time_line.transpose()?,
    };
    source::with_kernel(&arguments.dump, &arguments.source, |kernel| {
        // Before all the work: a name that cannot be had is known at once.
        if arguments.output == Path::new("-") {
            let report = Report::of(kernel, &options);
            return match write(&report, &mut io::stdout().lock()) {
                Err(error) if !is_closed_pipe(&error) => Err(error.into()),
                _ => Ok(()),
            };
        }
        let output = FileOutput::create(&arguments.output, arguments.overwrite)?;
        let report = Report::of(kernel, &options);
        write(&report, &mut output.file())
            .and_then(|()| output.finish())
            .inspect_err(|_| output.discard())
            .with_context(|| arguments.output.display().to_string())
    })
}

fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    render(report, &mut out)?;
    out.flush()
}

fn read_time_line(path: &Path) -> anyhow::Result<TimeLine> {
    let mut json = Vec::new();
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.take(MAX_TIME_LINE_BYTES)
        .read_to_end(&mut json)
        .with_context(|| path.display().to_string())?;
    TimeLine::parse(&json, "the summary of bigiron dump --json").with_context(|| {
        format!(
            "{}: has no phases: give what `bigiron dump --json` printed",
            path.display()
        )
    })
}
