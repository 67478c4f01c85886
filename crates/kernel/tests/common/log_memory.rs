//! Kernel memory that holds a log and nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeSet;

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::{KernelError, KernelMemory};
use bigiron_synth::{KernelLog, LogForm};

use super::kernel_bytes::KernelBytes;

pub const FORMS: [LogForm; 5] = [
    LogForm::Lockless,
    LogForm::LocklessToTheEnd,
    LogForm::Records,
    LogForm::OldRecords,
    LogForm::Text,
];

const BASE: u64 = 0xffff_8880_0123_4000;
const PAGE: usize = 4096;

pub struct LogMemory {
    pub kernel: KernelBytes,
    keys: Vec<(String, String)>,
    lost: BTreeSet<usize>,
}

impl LogMemory {
    pub fn new(log: &KernelLog) -> Self {
        let image = log.image(BASE);
        let keys = image.info.lines().map(|line| {
            let (key, value) = line.split_once('=').unwrap();
            (key.to_owned(), value.to_owned())
        });
        let mut memory = Self {
            kernel: KernelBytes {
                info: Vmcoreinfo::default(),
                endian: Endian::Little,
                base: BASE,
                bytes: image.bytes,
                physical: |address| address - BASE,
            },
            keys: keys.collect(),
            lost: BTreeSet::new(),
        };
        memory.parse();
        memory
    }

    fn parse(&mut self) {
        let text: String = self
            .keys
            .iter()
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect();
        self.kernel.info = Vmcoreinfo::parse(text.as_bytes(), 0).unwrap();
    }

    /// How many keys VMCOREINFO has.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Changes or removes a key.
    pub fn set(&mut self, key: &str, value: Option<&str>) {
        self.keys.retain(|(other, _)| other != key);
        if let Some(value) = value {
            self.keys.push((key.to_owned(), value.to_owned()));
        }
        self.parse();
    }

    /// Gives a key another value, by its place.
    pub fn set_nth(&mut self, index: usize, value: &str) {
        let index = index % self.keys.len();
        self.keys[index].1 = value.to_owned();
        self.parse();
    }

    pub fn symbol(&self, name: &str) -> u64 {
        self.kernel.info.symbol(name).unwrap().0
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - BASE) as usize;
        self.kernel.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn u64_at(&self, symbol: &str) -> u64 {
        let mut buf = [0; 8];
        let address = VirtAddr(self.symbol(symbol));
        self.read("a test", address, &mut buf).unwrap();
        u64::from_le_bytes(buf)
    }

    pub fn u32_at(&self, symbol: &str) -> u32 {
        self.u64_at(symbol) as u32
    }

    pub fn pages(&self) -> usize {
        self.kernel.bytes.len().div_ceil(PAGE)
    }

    /// Makes a page unreadable.
    pub fn lose_page(&mut self, index: usize) {
        self.lost.insert(index);
    }
}

impl KernelMemory for LogMemory {
    fn info(&self) -> &Vmcoreinfo {
        self.kernel.info()
    }

    fn endian(&self) -> Endian {
        self.kernel.endian()
    }

    fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        let start = address.0.saturating_sub(BASE) as usize;
        let mut pages = start / PAGE..start.saturating_add(buf.len()).div_ceil(PAGE);
        if pages.any(|page| self.lost.contains(&page)) {
            return Err(KernelError::NotMapped { what, address });
        }
        self.kernel.read(what, address, buf)
    }
}
