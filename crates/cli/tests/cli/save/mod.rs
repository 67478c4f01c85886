//! Functions shared by the tests of `bigiron save`: a device in a file, and a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bigiron_format::device::{self, BLOCK_SIZE, CONTENTS_OFFSET, FoundDump};
use bigiron_synth::{ElfShape, Synth};
use serde_json::Value;

use crate::common::{Lab, NO_STALL_WARNING, Outcome, arg, run};

/// 32 MiB with pages of every class, and a kernel log.
const MACHINE: &str = "kernel 6.12
    ram 0x0-0x9f 0x100-0x1fff
    pages 0x200 free order=9
    pages 0x400 slab n=64 fill=random
    pages 0x480 cache n=16 ; 0x490 cache private n=4 dirty fill=random
    pages 0x500 slab n=32 fill=zero ; 0x520 slab n=32 fill=const:7
    pages 0x600 thp ; 0xc00 slab n=512 fill=random
    log lockless n=50";

/// A directory with the machine's core in `vmcore`.
pub fn lab() -> Lab {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let core = MADE.get_or_init(|| Synth::from_text(MACHINE).unwrap().elf(&ElfShape::vmcore()));
    let lab = Lab::new();
    lab.file("vmcore", core);
    lab
}

/// Size of the device, which holds the test machine uncompressed.
pub const DEVICE_SIZE: usize = 48 << 20;

/// A file that is a dump device, and the directory `saved`.
pub struct SaveLab {
    pub lab: Lab,
    pub device: PathBuf,
    pub directory: PathBuf,
}

impl SaveLab {
    /// Creates a device filled with bytes that resemble no format.
    pub fn new() -> Self {
        let lab = lab();
        let old: Vec<u8> = (0..DEVICE_SIZE as u32 / 4)
            .flat_map(|n| (n.wrapping_mul(0x9e37_79b9) | 1).to_le_bytes())
            .collect();
        let device = lab.file("device", &old);
        let directory = lab.path("saved");
        fs::create_dir(&directory).unwrap();
        Self {
            lab,
            device,
            directory,
        }
    }

    /// Creates a device with a dump of the machine, made with `options`.
    pub fn with_dump(options: &[&str]) -> Self {
        let place = Self::new();
        place.dump(options).code(0);
        place
    }

    /// Dumps the machine onto the device.
    #[track_caller]
    pub fn dump(&self, options: &[&str]) -> Outcome {
        let mut arguments = vec!["dump", "--quiet", NO_STALL_WARNING, "--device"];
        arguments.extend(options);
        arguments.extend([arg(self.lab.vmcore()), arg(&self.device)]);
        run(&arguments)
    }

    /// Saves from the device.
    #[track_caller]
    pub fn save(&self, options: &[&str]) -> Outcome {
        let mut arguments = vec!["save"];
        arguments.extend(options);
        arguments.extend([arg(&self.device), arg(&self.directory)]);
        run(&arguments)
    }

    /// Saves from the device, and returns the JSON report.
    #[track_caller]
    pub fn saved(&self, options: &[&str]) -> Value {
        let options: Vec<_> = options.iter().copied().chain(["--json"]).collect();
        serde_json::from_slice(&self.save(&options).code(0).stdout).unwrap()
    }

    pub fn found(&self) -> Option<FoundDump> {
        device::find(&fs::read(&self.device).unwrap()).unwrap()
    }

    /// Returns true if the device is marked as having a dump to save.
    #[track_caller]
    pub fn is_valid(&self) -> bool {
        self.found().unwrap().header.valid
    }

    /// Returns the bytes of the dump on the device.
    pub fn contents(&self) -> Vec<u8> {
        let length = self.found().unwrap().header.length as usize;
        let start = CONTENTS_OFFSET as usize;
        fs::read(&self.device).unwrap()[start..start + length].to_vec()
    }

    /// Returns the offset of the device's last block.
    pub fn end_block(&self) -> usize {
        DEVICE_SIZE - BLOCK_SIZE
    }

    /// Returns the sorted names in the directory.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn empty_directory(&self) {
        fs::remove_dir_all(&self.directory).unwrap();
        fs::create_dir(&self.directory).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Modifies the bytes of the device.
    pub fn patch(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(&self.device).unwrap();
        change(&mut bytes);
        fs::write(&self.device, bytes).unwrap();
    }
}

/// Asserts that `bigiron verify` finds the dump complete and equal to `source`.
#[track_caller]
pub fn complete_and_equal(dump: &Path, source: &Path) {
    run(&["verify", "--quiet", arg(dump), "--against", arg(source)]).code(0);
}
