//! The real vmcore of samples/, opened once, with memory that every input changes.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bigiron_format::codec::{Codec, decompressor};
use bigiron_format::{ReadAt, VirtAddr};
use bigiron_inspect::Program;
use bigiron_kernel::{IoMethod, Kernel, Source};

use crate::Patched;
use crate::limits::Budget;

/// Larger than the unpacked sample, since the packed file does not record its size.
const ROOM: usize = 160 << 20;

/// Most bytes that a command may read of it: it has 128 MiB of memory.
const MOST_READ: u64 = 512 << 20;
/// Unlimited, until the sample is opened.
const ANY: u64 = u64::MAX;

/// Offsets in the file, and their new values.
type Patches = Vec<(usize, Vec<u8>)>;

/// The sample and its kernel.
pub struct Sample {
    /// The kernel's names, read from the unmodified sample.
    pub program: Program<'static, 'static>,
    patches: Arc<Mutex<Patches>>,
    left: Arc<Budget>,
}

struct Changing {
    base: &'static [u8],
    patches: Arc<Mutex<Patches>>,
    left: Arc<Budget>,
}

impl ReadAt for Changing {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.left.take(buf.len());
        let patches = self.patches.lock().unwrap_or_else(PoisonError::into_inner);
        let patched = Patched {
            base: self.base,
            patches: patches.clone(),
        };
        patched.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.base.len() as u64
    }
}

impl Sample {
    /// Unpacks and opens the sample, which lives as long as the process.
    pub fn open() -> Self {
        let packed = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../samples/linux-6.1-5level.elf.zst"
        );
        let packed = fs::read(PathBuf::from(packed)).expect("the sample");
        let mut bytes = vec![0; ROOM];
        let mut zstd = decompressor(Codec::Zstd).expect("zstd");
        let size = zstd.decompress(&packed, &mut bytes).expect("a sound file");
        bytes.truncate(size);
        let patches = Arc::new(Mutex::new(Vec::new()));
        let left = Arc::new(Budget::new(ANY));
        let changing = Changing {
            base: bytes.leak(),
            patches: Arc::clone(&patches),
            left: Arc::clone(&left),
        };
        let source = Source::from_bytes(Box::new(changing), PathBuf::from("sample"));
        let source = Box::leak(Box::new(source.expect("a vmcore")));
        // No cache: it would contain pages of the previous input.
        let kernel = Kernel::find(source, None, IoMethod::Read, 0).expect("a kernel");
        let kernel = Box::leak(Box::new(kernel));
        let program = Program::open(kernel).expect("names");
        // Cached by the program, so read from the unmodified sample.
        let _ = program.modules();
        Self {
            program,
            patches,
            left,
        }
    }

    /// Returns the file offset of the memory at an address.
    pub fn offset(&self, address: VirtAddr) -> Option<usize> {
        let kernel = self.program.kernel();
        let physical = kernel.translate(address).ok()??.physical.0;
        let mut segments = kernel.source().header_segments().iter();
        let segment = segments
            .find(|segment| physical.wrapping_sub(segment.physical.0) < segment.file_size)?;
        usize::try_from(segment.file_offset + (physical - segment.physical.0)).ok()
    }

    /// Begins a command: from now on, no more of the sample is read than is in proportion to its
    /// size.
    pub fn begin_command(&self) {
        self.left.reset(MOST_READ);
    }

    /// Changes words at some of `places`: each 12 bytes of `edits` are the number of a place
    /// and a value. A value with its lowest bit set is the number of one of `addresses`, since
    /// valid addresses mislead a walk most. Begins a command.
    pub fn change(&self, places: &[usize], addresses: &[VirtAddr], edits: &[u8]) {
        let patches = edits.chunks_exact(12).take(64).map(|edit| {
            let (place, value) = edit.split_at(4);
            let place = u32::from_le_bytes(place.try_into().expect("4 bytes")) as usize;
            let value = u64::from_le_bytes(value.try_into().expect("8 bytes"));
            let value = match value & 1 {
                1 => addresses[(value >> 1) as usize % addresses.len()].0,
                _ => value,
            };
            (places[place % places.len()], value.to_le_bytes().to_vec())
        });
        self.begin_command();
        *self.patches.lock().unwrap_or_else(PoisonError::into_inner) = patches.collect();
    }
}
