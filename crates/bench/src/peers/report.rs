//! All that was measured, as it is kept and printed.

use std::path::PathBuf;

use serde::Serialize;

use super::agreement::Agreement;
use super::programs::Program;
use super::series::{Series, best};

/// What was dumped.
#[derive(Clone, Debug, Serialize)]
pub struct SourceInfo {
    /// Its file.
    pub path: PathBuf,
    /// What kind of file it is.
    pub kind: String,
    /// The release of the kernel in it.
    pub kernel: String,
    /// Bytes of a page.
    pub page_size: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether it is in memory itself.
    pub in_memory: bool,
}

/// The pages of one dump level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Level {
    /// The dump level.
    pub level: u8,
    /// Pages that it keeps, zero pages among them.
    pub kept_pages: u64,
    /// Pages of them that are not zero; estimated if not all were looked at.
    pub nonzero_pages: u64,
    /// Pages that the bare codec was measured with.
    pub sampled_pages: u64,
    /// memcpy() of the pages that are not zero.
    pub memcpy: Bare,
}

/// The bare codec over the pages that are not zero: seconds for all of them,
/// medians.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bare {
    /// On one processor.
    pub one: f64,
    /// On as many as bigiron had helpers.
    pub all: f64,
}

/// Times of medians against each other.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// makedumpfile with one thread against one helper.
    pub one_thread_to_one_helper: Option<f64>,
    /// makedumpfile's best mode against all helpers.
    pub best_to_all_helpers: Option<f64>,
    /// One helper against all of them.
    pub one_helper_to_all: Option<f64>,
    /// All helpers against the bare codec on as many processors.
    pub all_helpers_to_bare: Option<f64>,
}

/// One codec at one dump level.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The codec's name.
    pub codec: String,
    /// The dump level.
    pub level: u8,
    /// makedumpfile's modes; the first is without threads.
    pub makedumpfile: Vec<Series>,
    /// Why makedumpfile has no time here.
    pub makedumpfile_absent: Option<String>,
    /// bigiron with one helper.
    pub one_helper: Series,
    /// bigiron with all helpers.
    pub all_helpers: Series,
    /// The limit.
    pub bare: Bare,
    /// Times of medians against each other.
    pub ratios: Ratios,
    /// makedumpfile's dump and ours, our dumps among themselves.
    pub agreements: Vec<Agreement>,
}

impl Row {
    /// What it is called.
    pub fn name(&self) -> String {
        format!("{} -d {}", self.codec, self.level)
    }

    /// makedumpfile's fastest mode.
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
    /// Seconds that bigiron took to make the ELF core, with all helpers.
    pub core_seconds: f64,
    /// Bytes of the ELF core.
    pub core_bytes: u64,
    /// The compressor.
    pub series: Series,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// bigiron's version.
    pub version: &'static str,
    /// What was dumped.
    pub source: SourceInfo,
    /// Where the outputs went.
    pub directory: PathBuf,
    /// Whether that is in memory; else a disk is measured too.
    pub in_memory: bool,
    /// How often each was run.
    pub runs: usize,
    /// bigiron's helpers, and makedumpfile's threads at most.
    pub helpers: usize,
    /// The programs beside bigiron.
    pub programs: Vec<Program>,
    /// The dump levels.
    pub levels: Vec<Level>,
    /// Each codec at each level.
    pub rows: Vec<Row>,
    /// Compressors of whole files.
    pub references: Vec<Reference>,
}

impl Report {
    /// Rows in which one of two dumps is wrong.
    pub fn wrong_rows(&self) -> Vec<String> {
        let is_wrong = |row: &&Row| row.agreements.iter().any(Agreement::is_wrong);
        self.rows.iter().filter(is_wrong).map(Row::name).collect()
    }
}
