//! `bigiron report`: a dump as one HTML page.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::report::{MAX_TIME_LINE_BYTES, REPORT, Report, ReportOptions, TimeLine, render};
use anyhow::Context;
use bigiron_dump::{FileOutput, Output};
use clap::Args;

use crate::arguments::SourceArguments;
use crate::sandbox::Needs;
use crate::source::Reading;
use crate::tell::is_closed_pipe;

/// Buffer size; JSON is written in small parts.
const BUFFER: usize = 256 << 10;

/// `bigiron report`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ReportArguments {
    /// The dump, in any format; all parts of a split or striped one, or - for standard input
    #[arg(required = true)]
    dump: Vec<PathBuf>,
    /// The HTML file to create, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    overwrite: bool,
    /// The output of `bigiron dump --json`, for the time line of a dump without its own
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

const HELP: &str = "\
The page is self-contained and loads nothing: it can be archived, mailed, and opened without a network. \
Its contents come from the machine's memory, so protect it like the dump. Its size is at most a few MB, \
plus up to 16 MiB of log.

Examples:
  bigiron report vmcore -o report.html
  bigiron dump --json /proc/vmcore /var/crash/vmcore > summary.json
  bigiron report /var/crash/vmcore --summary summary.json -o report.html";

/// Gathers the data and writes the page.
pub fn run(arguments: &ReportArguments) -> anyhow::Result<()> {
    let time_line = arguments.summary.as_deref().map(read_time_line);
    let name = arguments.dump.first().and_then(|path| path.file_name());
    let options = ReportOptions {
        name: name.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        io: arguments.source.input.io.into(),
        time_line: time_line.transpose()?,
    };
    let reading = Reading::open(&arguments.dump, &arguments.source)?;
    if arguments.output == Path::new("-") {
        return reading.with_kernel(&Needs::Nothing, |kernel| {
            let report = Report::of(kernel, &options);
            match write(&report, &mut io::stdout().lock()) {
                Err(error) if !is_closed_pipe(&error) => Err(error.into()),
                _ => Ok(()),
            }
        });
    }
    // Before the work, so that an unusable name is reported first, and before the process is
    // confined.
    let output = FileOutput::create(&arguments.output, arguments.overwrite)?;
    reading
        .with_kernel(&Needs::Output(&arguments.output), |kernel| {
            write(&Report::of(kernel, &options), &mut output.file())
                .and_then(|()| output.finish())
                .with_context(|| arguments.output.display().to_string())
        })
        .inspect_err(|_| output.discard())
}

fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    render(&REPORT, report, &mut out)?;
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
            "{}: has no phases; expected the output of `bigiron dump --json`",
            path.display()
        )
    })
}
