//! Argument of `--format`.

use clap::ValueEnum;

/// The output format on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// kdump-compressed; flattened if written to standard output
    Kdump,
    /// kdump-compressed as a stream, for pipes
    Flattened,
    /// ELF core, uncompressed
    Elf,
    /// ELF core in compressed chunks, which zstd -d or bzip2 -d unpacks; the fastest and
    /// smallest format
    Vmdump,
}
