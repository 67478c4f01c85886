//! Options of the comparison.

use std::path::PathBuf;
use std::process::Command;

use bigiron_format::codec::Codec;
use bigiron_kernel::DumpLevel;

/// Options of the comparison.
#[derive(Clone, Debug)]
pub struct PeersOptions {
    /// The program `bigiron`.
    pub program: PathBuf,
    /// The file to dump.
    pub source: PathBuf,
    /// Codecs to measure.
    pub codecs: Vec<Codec>,
    /// Dump levels to measure.
    pub levels: Vec<DumpLevel>,
    /// Number of runs of each program.
    pub runs: usize,
    /// Number of helpers, and maximum number of threads of other programs.
    pub helpers: usize,
    /// Directory for outputs; `None` to choose one.
    pub directory: Option<PathBuf>,
    /// True to measure vmdumps and compressors of whole files as well.
    pub compressors: bool,
}

impl PeersOptions {
    /// Returns the command `bigiron dump`, without source and output.
    pub(super) fn bigiron(&self, helpers: usize, level: DumpLevel) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["dump", "--quiet", &format!("-j{helpers}")]);
        command.args(["-d", &level.number().to_string()]);
        command
    }
}
