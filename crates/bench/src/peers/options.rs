//! What is measured, and how.

use std::path::PathBuf;
use std::process::Command;

use bigiron_format::codec::Codec;
use bigiron_kernel::DumpLevel;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct PeersOptions {
    /// The program `bigiron`.
    pub program: PathBuf,
    /// What is dumped.
    pub source: PathBuf,
    /// With which codecs.
    pub codecs: Vec<Codec>,
    /// At which dump levels.
    pub levels: Vec<DumpLevel>,
    /// How often each is run.
    pub runs: usize,
    /// Helpers, and threads of other programs, at most.
    pub helpers: usize,
    /// Where outputs go; `None` to choose.
    pub directory: Option<PathBuf>,
    /// Whether vmdumps and compressors of whole files are measured too.
    pub compressors: bool,
}

impl PeersOptions {
    /// `bigiron dump`, without source and output.
    pub(super) fn bigiron(&self, helpers: usize, level: DumpLevel) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["dump", "--quiet", &format!("-j{helpers}")]);
        command.args(["-d", &level.number().to_string()]);
        command
    }
}
