//! Functions shared by the tests of striped dumps.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Lab, Outcome, arg, run};

/// Returns arguments: `options`, then `paths`, then `others`.
fn with(options: &[&str], paths: &[&Path], others: &[&Path]) -> Vec<String> {
    let paths = paths.iter().chain(others).map(|path| arg(path).to_owned());
    let options = options.iter().map(ToString::to_string);
    options.chain(paths).collect()
}

#[track_caller]
pub fn run_with(options: &[&str], paths: &[&Path], others: &[&Path]) -> Outcome {
    let line = with(options, paths, others);
    run(&line.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn list(paths: &[&Path]) -> String {
    paths
        .iter()
        .map(|path| arg(path))
        .collect::<Vec<_>>()
        .join(",")
}

/// Dumps the machine in `count` parts.
#[track_caller]
pub fn striped(lab: &Lab, count: usize, options: &[&str]) -> Vec<PathBuf> {
    let parts: Vec<_> = (0..count).map(|n| lab.path(&format!("part{n}"))).collect();
    let refs: Vec<&Path> = parts.iter().map(PathBuf::as_path).collect();
    let list = list(&refs);
    let line = ["dump", "-q", "--overwrite", "--stripe", &list];
    run_with(&[&line[..], options].concat(), &[lab.vmcore()], &[]).code(0);
    parts
}

pub fn refs(parts: &[PathBuf]) -> Vec<&Path> {
    parts.iter().map(PathBuf::as_path).collect()
}

#[track_caller]
pub fn save_json(options: &[&str], parts: &[&Path], directory: &Path) -> Value {
    let outcome = run_with(
        &[&["save", "--json"][..], options].concat(),
        parts,
        &[directory],
    );
    serde_json::from_slice(&outcome.code(0).stdout).unwrap()
}
