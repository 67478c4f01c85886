//! Keeps the bitmap of kept pages between filtering and copying.

use std::sync::OnceLock;

use bigiron_format::bitmap::Bitmap;

use crate::output::FileOutput;
use crate::task::Task;

/// Bytes of one chunk's bitmap.
pub const CHUNK_BYTES: usize = bigiron_kernel::SECTION_FRAMES as usize / 8;
/// What a chunk takes in memory: its bitmap, its place in the table, and what
/// the allocator adds.
const CHUNK_MEMORY: u64 = CHUNK_BYTES as u64 + 64;

/// Where the bitmaps of kept pages are. They grow with the machine, 32 MiB
/// for each TiB.
pub enum BitmapStore<'a> {
    /// In the output file, which holds the bitmap anyway: from this offset on.
    InOutput(&'a FileOutput, u64),
    /// In memory, by the number of the chunk in the plan, those of the first
    /// chunks. About the others the filter decides again.
    InMemory(Vec<OnceLock<Box<[u8]>>>),
}

impl<'a> BitmapStore<'a> {
    /// The store of a dump of `chunks` chunks: in the output, if that can be read
    /// back and has the bitmap at an offset; else in memory, in at most `usual`
    /// bytes and a quarter of what the dump may take. A running kernel's take what
    /// they need, because the filter would not decide the same a second time.
    pub fn of(
        task: &Task,
        readable: Option<(&'a FileOutput, u64)>,
        chunks: usize,
        usual: u64,
    ) -> Self {
        if let Some((file, offset)) = readable {
            return Self::InOutput(file, offset);
        }
        let most = match task.kernel.source().is_live() {
            true => u64::MAX,
            false => usual.min(task.options.memory.bytes() / 4),
        };
        Self::in_memory(chunks, most)
    }

    /// A store in memory for as many of `chunks` chunks as `bytes` hold.
    fn in_memory(chunks: usize, bytes: u64) -> Self {
        let fit = usize::try_from(bytes / CHUNK_MEMORY).unwrap_or(usize::MAX);
        Self::InMemory((0..chunks.min(fit)).map(|_| OnceLock::new()).collect())
    }

    /// Keeps the bitmap of the `index`-th chunk of the plan, if it has room.
    pub fn keep(&self, index: usize, bits: &Bitmap) {
        if let Self::InMemory(chunks) = self
            && let Some(chunk) = chunks.get(index)
        {
            let _ = chunk.set(bits.as_bytes()[..CHUNK_BYTES].into());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::path::PathBuf;

    use bigiron_helpers::{MemoryBudget, Stop};
    use bigiron_kernel::{IoMethod, Kernel, RUNNING_KERNEL, Source};
    use bigiron_synth::{ElfShape, Synth};

    use super::*;
    use crate::options::DumpOptions;
    use crate::progress::Progress;

    #[test]
    fn bitmaps_keep_to_the_memory_limit_but_for_a_kernel_that_runs() {
        let machine = Synth::from_text("kernel 6.12\nram 0x0-0x9f 0x100-0xfff").unwrap();
        let core = machine.elf(&ElfShape::vmcore());
        let (progress, stop) = (Progress::new(), Stop::new());
        let kept = |name: &str, memory, usual| {
            let source = Source::from_bytes(Box::new(core.clone()), PathBuf::from(name)).unwrap();
            let kernel = Kernel::find(&source, None, IoMethod::Read, 16).unwrap();
            let options = DumpOptions {
                memory: MemoryBudget::of(memory),
                ..DumpOptions::default()
            };
            let task = Task::new(&kernel, &options, &progress, &stop, PathBuf::new(), 1);
            match BitmapStore::of(&task, None, 100, usual) {
                BitmapStore::InMemory(chunks) => chunks.len() as u64,
                BitmapStore::InOutput(..) => unreachable!("there is no output"),
            }
        };
        let ten = 10 * CHUNK_MEMORY;
        assert_eq!(kept("vmcore", 4 * ten, u64::MAX), 10);
        assert_eq!(kept("vmcore", u64::MAX, ten), 10);
        assert_eq!(kept("vmcore", 1024, ten), 0);
        assert_eq!(kept("vmcore", u64::MAX, u64::MAX), 100);
        assert_eq!(kept(RUNNING_KERNEL, 1024, 0), 100);
    }
}
