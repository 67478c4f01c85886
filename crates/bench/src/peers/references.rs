//! Compressors of whole files. They filter nothing, so each gets the ELF core
//! that bigiron makes: this is what a user has without a dump tool's codecs.

use std::path::Path;
use std::process::Command;

use bigiron_helpers::Stop;
use bigiron_kernel::DumpLevel;

use super::PeersOptions;
use super::child::{self, Job};
use super::place::Place;
use super::programs::Program;
use super::report::Reference;
use super::row::{must_be_done, remove};
use super::series::Series;

/// Runs all compressors that are installed, in turns, on the core of `level`.
pub fn measure(
    options: &PeersOptions,
    place: &Place,
    compressors: &[Program],
    level: DumpLevel,
    stop: &Stop,
) -> anyhow::Result<Vec<Reference>> {
    let threads = options.helpers;
    let mut found: Vec<(&Path, Vec<String>, Series)> = Vec::new();
    for program in compressors {
        if let Some(path) = &program.path {
            let flags = flags(program.name, threads);
            let mode = format!("{} {}", program.name, flags.join(" "));
            found.push((path, flags, Series::new(mode, threads)));
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let (core, log, output) = (place.file("core"), place.file("log"), place.file("packed"));
    let job = |command, output, to_stdout| Job {
        command,
        output,
        log: &log,
        to_stdout,
        time_limit: None,
    };
    let mut making = Series::new(format!("-f elf -j{threads}"), threads);
    let mut command = options.bigiron(threads, level);
    command.args(["-f", "elf"]).arg(&options.source).arg(&core);
    must_be_done(child::run(job(command, &core, false), stop)?, &mut making)?;
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
    }
    remove([core])?;
    let making = making.median.unwrap_or_default();
    Ok(found
        .into_iter()
        .map(|(_, _, series)| Reference {
            level: level.number(),
            core_seconds: making.seconds,
            core_bytes: making.output_bytes,
            series,
        })
        .collect())
}

/// As fast as it can be with `threads`.
fn flags(name: &str, threads: usize) -> Vec<String> {
    match name {
        "zstd" => vec!["-q".into(), "-1".into(), format!("-T{threads}")],
        "lbzip2" => vec!["-1".into(), "-n".into(), threads.to_string()],
        _ => vec!["-1".into(), format!("-p{threads}")],
    }
}
