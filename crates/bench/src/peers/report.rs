//! The complete results, as saved and printed.

use std::path::PathBuf;

use serde::Serialize;

use super::agreement::Agreement;
use super::programs::Program;
use super::series::{Series, best};

/// The source of the dumps.
#[derive(Clone, Debug, Serialize)]
pub struct SourceInfo {
    /// Path of the file.
    pub path: PathBuf,
    /// Kind of the file.
    pub kind: String,
    /// Release of the crashed kernel.
    pub kernel: String,
    /// Page size in bytes.
    pub page_size: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// True if the file is in memory.
    pub in_memory: bool,
}

/// The pages of one dump level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Level {
    /// The dump level.
    pub level: u8,
    /// Number of kept pages, including zero pages.
    pub kept_pages: u64,
    /// Number of nonzero pages among them; estimated if not all were read.
    pub nonzero_pages: u64,
    /// Number of pages in the sample for the bare codec.
    pub sampled_pages: u64,
    /// memcpy() of the nonzero pages.
    pub memcpy: Bare,
}

/// The bare codec on all nonzero pages: medians in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bare {
    /// On one processor.
    pub one: f64,
    /// On as many processors as bigiron had helpers.
    pub all: f64,
}

/// Ratios of median times.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// makedumpfile with one thread to one helper.
    pub one_thread_to_one_helper: Option<f64>,
    /// makedumpfile's best mode to all helpers.
    pub best_to_all_helpers: Option<f64>,
    /// One helper to all helpers.
    pub one_helper_to_all: Option<f64>,
    /// All helpers to the bare codec on the same number of processors.
    pub all_helpers_to_bare: Option<f64>,
}

/// One codec at one dump level.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The codec's name.
    pub codec: String,
    /// The dump level.
    pub level: u8,
    /// makedumpfile's modes; the first is single-threaded.
    pub makedumpfile: Vec<Series>,
    /// Reason why makedumpfile was not measured.
    pub makedumpfile_absent: Option<String>,
    /// bigiron with one helper.
    pub one_helper: Series,
    /// bigiron with all helpers.
    pub all_helpers: Series,
    /// The bare codec: the limit.
    pub bare: Bare,
    /// Ratios of median times.
    pub ratios: Ratios,
    /// Comparisons of makedumpfile's dump with bigiron's, and of bigiron's dumps with each
    /// other.
    pub agreements: Vec<Agreement>,
}

impl Row {
    /// Returns the name of the row.
    pub fn name(&self) -> String {
        format!("{} -d {}", self.codec, self.level)
    }

    /// Returns makedumpfile's fastest mode.
    pub fn makedumpfile_best(&self) -> Option<&Series> {
        best(&self.makedumpfile)
    }

    /// Fills in the ratios.
    pub fn compute_ratios(&mut self) {
        let over = |time: Option<f64>, by: Option<f64>| {
            by.filter(|by| *by > 0.0).and_then(|by| Some(time? / by))
        };
        let one_thread = self.makedumpfile.first().and_then(Series::seconds);
        let theirs = self.makedumpfile_best().and_then(Series::seconds);
        let (one, all) = (self.one_helper.seconds(), self.all_helpers.seconds());
        self.ratios = Ratios {
            one_thread_to_one_helper: over(one_thread, one),
            best_to_all_helpers: over(theirs, all),
            one_helper_to_all: over(one, all),
            all_helpers_to_bare: over(all, Some(self.bare.all)),
        };
    }
}

/// A compressor of whole files on the ELF core of one dump level.
#[derive(Clone, Debug, Serialize)]
pub struct Reference {
    /// The dump level.
    pub level: u8,
    /// Time in seconds in which bigiron made the ELF core, with all helpers.
    pub core_seconds: f64,
    /// Size of the ELF core in bytes.
    pub core_bytes: u64,
    /// The compressor.
    pub series: Series,
}

/// The complete results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// bigiron's version.
    pub version: &'static str,
    /// The source of the dumps.
    pub source: SourceInfo,
    /// Directory of the outputs.
    pub directory: PathBuf,
    /// True if the directory is in memory; otherwise the disk is measured as well.
    pub in_memory: bool,
    /// Number of runs of each program.
    pub runs: usize,
    /// Number of bigiron's helpers, and maximum number of makedumpfile's threads.
    pub helpers: usize,
    /// The programs that bigiron is compared with.
    pub programs: Vec<Program>,
    /// The dump levels.
    pub levels: Vec<Level>,
    /// Each codec at each level.
    pub rows: Vec<Row>,
    /// Compressors of whole files.
    pub references: Vec<Reference>,
}

impl Report {
    /// Returns the rows in which one of two dumps is wrong.
    pub fn wrong_rows(&self) -> Vec<String> {
        let is_wrong = |row: &&Row| row.agreements.iter().any(Agreement::is_wrong);
        self.rows.iter().filter(is_wrong).map(Row::name).collect()
    }
}
