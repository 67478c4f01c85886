//! Kernel memory that holds a log and nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeSet;

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::KernelError;
use bigiron_kernel::printk::KernelMemory;
use bigiron_synth::{KernelLog, LogForm};

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
    pub bytes: Vec<u8>,
    keys: Vec<(String, String)>,
    info: Vmcoreinfo,
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
            bytes: image.bytes,
            keys: keys.collect(),
            info: Vmcoreinfo::default(),
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
        self.info = Vmcoreinfo::parse(text.as_bytes(), 0).unwrap();
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
        self.info.symbol(name).unwrap().0
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - BASE) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
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
        self.bytes.len().div_ceil(PAGE)
    }

    /// Makes a page unreadable.
    pub fn lose_page(&mut self, index: usize) {
        self.lost.insert(index);
    }
}

impl KernelMemory for LogMemory {
    fn info(&self) -> &Vmcoreinfo {
        &self.info
    }

    fn endian(&self) -> Endian {
        Endian::Little
    }

    fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        let not_mapped = || KernelError::NotMapped { what, address };
        let start = address.0.checked_sub(BASE).ok_or_else(not_mapped)? as usize;
        let end = start.checked_add(buf.len()).ok_or_else(not_mapped)?;
        let bytes = self.bytes.get(start..end).ok_or_else(not_mapped)?;
        let mut pages = start / PAGE..end.div_ceil(PAGE);
        if pages.any(|page| self.lost.contains(&page)) {
            return Err(not_mapped());
        }
        buf.copy_from_slice(bytes);
        Ok(())
    }
}
