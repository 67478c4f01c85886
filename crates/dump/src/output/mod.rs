//! Where the bytes of a dump go.

mod device;
mod discarded;
mod file;
mod keeper;
mod limited;
mod paced;
mod sink;
mod stream;
mod watched;
mod zero;

use std::io;
use std::path::PathBuf;

pub use device::DeviceOutput;
pub use discarded::DiscardedOutput;
pub use file::FileOutput;
pub use keeper::keep;
pub use limited::LimitedOutput;
pub use paced::PacedOutput;
pub use sink::Sink;
pub use stream::{FlattenedOutput, PlainStream};
pub use watched::WatchedOutput;

/// Takes pieces of a file from several helpers at once.
pub trait Output: Sync {
    /// Writes all of `bytes` at `offset` of the file.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes these bytes zero where they may not be so: those of a new file are,
    /// and what was on a device before must not be taken for the dump's.
    fn make_zero(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether pieces have to come in order and without anything missing.
    fn is_stream(&self) -> bool;

    /// Sends what was written on to the disk, and waits for what was sent long
    /// before, so that a write takes as long as the disk does and the page
    /// cache does not hide it.
    fn flush_behind(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Makes what was written until now durable, where that can be. What is
    /// written after it is never on the disk without what came before.
    fn sync(&self) -> io::Result<()>;

    /// Everything was written: makes it durable and gives it its name.
    fn finish(&self) -> io::Result<()>;

    /// The file that keeps what was written if the dump ends here.
    fn kept(&self) -> Option<PathBuf>;

    /// Nothing of use was written: removes it.
    fn discard(&self);

    /// After [`finish`](Self::finish): takes the name away again, as far as that can
    /// be, since another file of the same dump did not get its own.
    fn take_back(&self) {}
}
