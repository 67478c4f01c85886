//! Compressors of whole files, and vmdumps with their limit. The compressors filter nothing, so
//! each gets the ELF core that bigiron makes: this is what a user has without a dump tool's
//! codecs. The chunks of vmdumps are larger than the pages of other dumps.

use std::path::Path;
use std::process::Command;

use bigiron_helpers::Stop;
use bigiron_kernel::DumpLevel;

use super::bare_chunks::BareChunks;
use super::child::{self, Ending, Job, Run};
use super::options::PeersOptions;
use super::output_directory::OutputDirectory;
use super::programs::Program;
use super::report::Reference;
use super::row::{must_be_done, remove};
use super::series::Series;

/// Runs vmdumps and all installed compressors in turns, the compressors on the core of `level`.
pub fn measure(
    options: &PeersOptions,
    place: &OutputDirectory,
    compressors: &[Program],
    level: DumpLevel,
    stop: &Stop,
) -> anyhow::Result<Vec<Reference>> {
    let threads = options.helpers;
    let mut found: Vec<(&Path, Vec<String>, Series)> = Vec::new();
    for program in compressors {
        if let Some(path) = &program.path {
            for flags in flags(program.name, threads) {
                let mode = format!("{} {}", program.name, flags.join(" "));
                found.push((path, flags, Series::new(mode, threads)));
            }
        }
    }
    let mut vmdumps = ["zstd", "bzip2"].map(|codec| Vmdumps::new(codec, threads));
    let (core, log, output) = (place.file("core"), place.file("log"), place.file("packed"));
    let job = |command, output, to_stdout| Job {
        command,
        output,
        log: &log,
        to_stdout,
        time_limit: None,
    };
    let mut making = Series::new(format!("-f elf -j{threads}"), threads);
    if !found.is_empty() {
        let mut command = options.bigiron(threads, level);
        command.args(["-f", "elf"]).arg(&options.source).arg(&core);
        must_be_done(child::run(job(command, &core, false), stop)?, &mut making)?;
    }
    for _ in 0..options.runs {
        for (path, flags, series) in &mut found {
            if series.failure.is_some() {
                continue;
            }
            let mut command = Command::new(path);
            command.args(flags).arg("-c").arg(&core);
            series.add(child::run(job(command, &output, true), stop)?);
            remove([output.clone()])?;
        }
        for vmdumps in &mut vmdumps {
            for series in &mut vmdumps.dumps {
                if series.failure.is_some() {
                    continue;
                }
                let mut command = options.bigiron(series.threads, level);
                command.args(["-f", "vmdump", "-c", vmdumps.codec]);
                command.arg(&options.source).arg(&output);
                let is_made = series.add(child::run(job(command, &output, false), stop)?);
                if is_made && vmdumps.chunks.is_none() {
                    vmdumps.chunks = Some(BareChunks::read(&output)?);
                }
                remove([output.clone()])?;
            }
            if let Some(chunks) = &vmdumps.chunks {
                for series in &mut vmdumps.bare {
                    let (seconds, output_bytes) = chunks.compress(series.threads, stop)?;
                    series.add(Ending::Done(Run {
                        seconds,
                        cpu_seconds: seconds * series.threads as f64,
                        peak_bytes: 0,
                        output_bytes,
                    }));
                }
            }
        }
    }
    if !found.is_empty() {
        remove([core])?;
    }
    let making = making.median.unwrap_or_default();
    let whole = found.into_iter().map(|(_, _, series)| (true, series));
    let vmdumps = vmdumps
        .into_iter()
        .flat_map(|vmdumps| vmdumps.dumps.into_iter().chain(vmdumps.bare))
        .map(|series| (false, series));
    Ok(whole
        .chain(vmdumps)
        .map(|(needs_core, series)| Reference {
            level: level.number(),
            // A vmdump is made directly from the source.
            core_seconds: if needs_core { making.seconds } else { 0.0 },
            core_bytes: making.output_bytes,
            series,
        })
        .collect())
}

/// The vmdumps of one codec.
struct Vmdumps {
    codec: &'static str,
    /// With one helper and with all helpers.
    dumps: [Series; 2],
    /// The bare codec on the same numbers of processors.
    bare: [Series; 2],
    chunks: Option<BareChunks>,
}

impl Vmdumps {
    fn new(codec: &'static str, threads: usize) -> Self {
        let dump = |threads| {
            let mode = format!("bigiron -f vmdump -c {codec} -j{threads}");
            Series::new(mode, threads)
        };
        let bare = |threads| {
            let mode = format!("bare {codec} on {threads}, chunks of the vmdump");
            Series::new(mode, threads)
        };
        Self {
            codec,
            dumps: [dump(1), dump(threads)],
            bare: [bare(1), bare(threads)],
            chunks: None,
        }
    }
}

/// Returns the flags for the fastest mode with `threads`, and for the block size of a bzip2
/// vmdump.
fn flags(name: &str, threads: usize) -> Vec<Vec<String>> {
    let levels = if name == "zstd" {
        &["-1"][..]
    } else {
        &["-1", "-9"]
    };
    let with_level = |level: &&str| match name {
        "zstd" => vec!["-q".into(), (*level).into(), format!("-T{threads}")],
        "lbzip2" => vec![(*level).into(), "-n".into(), threads.to_string()],
        _ => vec![(*level).into(), format!("-p{threads}")],
    };
    levels.iter().map(with_level).collect()
}
