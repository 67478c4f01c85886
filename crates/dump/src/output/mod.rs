//! Outputs: the destinations of the bytes of a dump.

mod device;
mod direct;
mod directory;
mod discarded;
mod file;
mod keeper;
mod name;
mod pace;
mod part;
mod reader;
mod sink;
mod stream;
mod taker;
mod zero;

use std::io;
use std::path::PathBuf;

pub use device::DeviceOutput;
pub use directory::{Entry, OutputDirectory};
pub use discarded::DiscardedOutput;
pub use file::FileOutput;
pub use keeper::keep;
pub use part::Part;
pub use sink::Sink;
pub use stream::{StreamEncoding, StreamOutput};
pub use taker::{NamedTaker, Taker};

/// A file, device or stream that several helpers write to at the same time.
///
/// No method has a default, so that an output that wraps another one cannot forget to forward a
/// call.
pub trait Output: Send + Sync {
    /// Writes all of `bytes` at `offset` of the file.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes a range zero unless it is zero already, as in a new file: old data on a device
    /// must not be taken for the dump's.
    fn make_zero(&self, offset: u64, len: u64) -> io::Result<()>;

    /// True if bytes must be written sequentially and without gaps.
    fn is_stream(&self) -> bool;

    /// Starts writeback of a range and waits for writeback started long before, so that a write
    /// takes as long as the disk needs and is not hidden by the page cache.
    fn flush_behind(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes the bytes written so far durable, if the output can. Bytes written later do not
    /// reach the disk without them.
    fn sync(&self) -> io::Result<()>;

    /// Makes a complete dump durable and gives it its name. After an error it does not have its
    /// name.
    fn finish(&self) -> io::Result<()>;

    /// Undoes the naming of [`finish`](Self::finish) as far as possible, because another part of
    /// the same dump could not be finished.
    fn take_back(&self);

    /// Returns the file that keeps the written bytes if the dump ends now.
    fn kept(&self) -> Option<PathBuf>;

    /// Removes the written bytes, because they are of no use.
    fn discard(&self);

    /// Returns the file, if the dump is written to one in random order.
    fn as_file(&self) -> Option<&FileOutput>;
}
