//! One row of the table: a codec at a dump level, with all programs in turns.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use bigiron_format::codec::{Codec, Compression};
use bigiron_helpers::Stop;
use bigiron_kernel::DumpLevel;

use super::agreement::Agreement;
use super::child::{self, Ending, Job};
use super::limit::Sample;
use super::options::PeersOptions;
use super::output_directory::OutputDirectory;
use super::programs::Program;
use super::report::{Bare, Ratios, Row};
use super::series::{Series, is_worth_a_run, thread_counts, time_limit};
use crate::results::median;

/// Size of an ELF-64 header, which makedumpfile expects the program headers to follow.
const ELF_HEADER: u64 = 64;

/// Measures the rows.
pub struct Rows<'a> {
    pub options: &'a PeersOptions,
    pub place: &'a OutputDirectory,
    pub makedumpfile: &'a Program,
    pub stop: &'a Stop,
    /// True if makedumpfile has made a dump of this source.
    has_dumped: bool,
    /// Reason why makedumpfile cannot dump this source.
    refused: Option<String>,
}

impl<'a> Rows<'a> {
    pub fn new(
        options: &'a PeersOptions,
        place: &'a OutputDirectory,
        makedumpfile: &'a Program,
        stop: &'a Stop,
    ) -> Self {
        Self {
            options,
            place,
            makedumpfile,
            stop,
            has_dumped: false,
            refused: None,
        }
    }

    /// Measures a row.
    pub fn measure(
        &mut self,
        codec: Codec,
        level: DumpLevel,
        sample: &Sample,
    ) -> anyhow::Result<Row> {
        let helpers = self.options.helpers;
        let (modes, absent) = match self.modes(codec) {
            Ok(modes) => (modes, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let mut row = Row {
            codec: codec.name().to_owned(),
            level: level.number(),
            makedumpfile: modes,
            makedumpfile_absent: absent,
            one_helper: Series::new("-j1", 1),
            all_helpers: Series::new(format!("-j{helpers}"), helpers),
            bare: Bare::default(),
            ratios: Ratios::default(),
            agreements: Vec::new(),
        };
        let compression = Compression::new(codec);
        let (mut bare_one, mut bare_all) = (Vec::new(), Vec::new());
        for round in 0..self.options.runs {
            let theirs = self.round_of_makedumpfile(codec, level, &mut row)?;
            let one = self.dump(compression, level, &mut row.one_helper, "one")?;
            if round == 0
                && let Some((mode, theirs)) = &theirs
            {
                let between = [&format!("makedumpfile ({mode})"), "bigiron -j1"];
                row.agreements.push(self.agreement(between, theirs, &one)?);
            }
            remove(theirs.map(|(_, path)| path))?;
            let all = self.dump(compression, level, &mut row.all_helpers, "all")?;
            if round == 0 {
                let between = ["bigiron -j1", &format!("bigiron -j{helpers}")];
                let mut found = self.agreement(between, &one, &all)?;
                if found.error.is_none() && !found.is_equal() {
                    found.error =
                        Some(format!("the dumps must be equal, but {}", found.sentence()));
                }
                row.agreements.push(found);
            }
            remove([one, all])?;
            bare_one.push(sample.seconds(compression, 1, self.stop)?);
            bare_all.push(sample.seconds(compression, helpers, self.stop)?);
        }
        row.bare = Bare {
            one: median(&bare_one),
            all: median(&bare_all),
        };
        if row.makedumpfile_best().is_none() && row.makedumpfile_absent.is_none() {
            row.makedumpfile_absent = Some(self.why_none(&row));
        }
        row.compute_ratios();
        Ok(row)
    }

    /// Returns makedumpfile's modes, or the reason why it cannot be measured.
    fn modes(&self, codec: Codec) -> Result<Vec<Series>, String> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        if self.makedumpfile.path.is_none() {
            return Err("makedumpfile is not installed".into());
        }
        self.makedumpfile.codec_flag(codec)?;
        let threads = thread_counts(self.options.helpers);
        let threads = threads
            .into_iter()
            .map(|count| Series::new(format!("--num-threads={count}"), count));
        Ok(std::iter::once(Series::new("one thread", 1))
            .chain(threads)
            .collect())
    }

    /// Runs each mode once that can still become the best, and returns the output of the first
    /// of them.
    fn round_of_makedumpfile(
        &mut self,
        codec: Codec,
        level: DumpLevel,
        row: &mut Row,
    ) -> anyhow::Result<Option<(String, PathBuf)>> {
        let Some(program) = &self.makedumpfile.path else {
            return Ok(None);
        };
        let mut made = None;
        for index in 0..row.makedumpfile.len() {
            if !is_worth_a_run(&row.makedumpfile[index], &row.makedumpfile) {
                continue;
            }
            let output = self.place.file(&format!("makedumpfile-{index}"));
            let mut command = Command::new(program);
            command.args(self.makedumpfile.codec_flag(codec).ok().flatten());
            command.args(["-d", &level.number().to_string()]);
            if index > 0 {
                let threads = row.makedumpfile[index].threads;
                command.arg(format!("--num-threads={threads}"));
            }
            command.arg(&self.options.source).arg(&output);
            let limit = time_limit(&row.makedumpfile);
            let ending = self.run(command, &output, limit)?;
            if row.makedumpfile[index].add(ending) {
                self.has_dumped = true;
                if made.is_none() {
                    made = Some((row.makedumpfile[index].mode.clone(), output));
                    continue;
                }
            } else if index == 0
                && !self.has_dumped
                && let Some(failure) = &row.makedumpfile[0].failure
            {
                let hint = misplaced_headers(&self.options.source).unwrap_or_default();
                let refused = format!("makedumpfile cannot dump this source ({failure}){hint}");
                row.makedumpfile_absent = Some(refused.clone());
                self.refused = Some(refused);
                row.makedumpfile.clear();
                remove([output])?;
                break;
            }
            remove([output])?;
        }
        Ok(made)
    }

    fn why_none(&self, row: &Row) -> String {
        let failure = row
            .makedumpfile
            .iter()
            .find_map(|mode| mode.failure.as_ref());
        match failure {
            Some(failure) => format!("makedumpfile failed ({failure})"),
            None => "a signal ended every run of makedumpfile".into(),
        }
    }

    /// Runs bigiron once; a failure is an error.
    fn dump(
        &self,
        compression: Compression,
        level: DumpLevel,
        series: &mut Series,
        name: &str,
    ) -> anyhow::Result<PathBuf> {
        let output = self.place.file(name);
        let mut command = self.options.bigiron(series.threads, level);
        command.args(["-c", &compression.to_string()]);
        command.arg(&self.options.source).arg(&output);
        must_be_done(self.run(command, &output, None)?, series)?;
        Ok(output)
    }

    fn run(
        &self,
        command: Command,
        output: &Path,
        time_limit: Option<Duration>,
    ) -> anyhow::Result<Ending> {
        let job = Job {
            command,
            output,
            log: &self.place.file("log"),
            to_stdout: false,
            time_limit,
        };
        child::run(job, self.stop)
    }

    fn agreement(
        &self,
        between: [&str; 2],
        first: &Path,
        second: &Path,
    ) -> anyhow::Result<Agreement> {
        let helpers = self.options.helpers;
        Ok(Agreement::of(between, first, second, helpers, self.stop)?)
    }
}

/// Adds a run of bigiron to `series`; a failed run is an error.
pub fn must_be_done(ending: Ending, series: &mut Series) -> anyhow::Result<()> {
    match &ending {
        Ending::Done(_) | Ending::TooSlow => {}
        Ending::Signal(signal, line) => {
            anyhow::bail!(
                "bigiron {} was ended by signal {signal}: {line}",
                series.mode
            )
        }
        Ending::Failed(code, line) => {
            anyhow::bail!(
                "bigiron {} failed with exit status {code}: {line}",
                series.mode
            )
        }
    }
    series.add(ending);
    Ok(())
}

/// Removes those of `files` that exist.
pub fn remove(files: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<()> {
    for file in files {
        if file.exists() {
            fs::remove_file(&file).with_context(|| format!("{}: cannot remove", file.display()))?;
        }
    }
    Ok(())
}

/// Returns a hint if the program headers do not follow the ELF header directly, where
/// makedumpfile reads them regardless of e_phoff. QEMU 7.2 writes section headers there.
fn misplaced_headers(source: &Path) -> Option<String> {
    let mut front = [0; 40];
    let file = File::open(source).ok()?;
    file.read_exact_at(&mut front, 0).ok()?;
    let offset: [u8; 8] = front[32..].try_into().ok()?;
    let offset = u64::from_le_bytes(offset);
    (front.starts_with(b"\x7fELF\x02\x01") && offset != ELF_HEADER).then(|| {
        format!(
            "; it looks for the program headers at offset {ELF_HEADER}, and this core has them \
             at {offset}, as QEMU writes it"
        )
    })
}
