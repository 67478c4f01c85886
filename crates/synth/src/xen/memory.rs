//! The contents of page frames, of which only the hypervisor's data is stored.

use std::collections::HashMap;

const PAGE: usize = 4096;

/// Contents of page frames: what was put there, else a pattern of the frame's number.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pages: HashMap<u64, Vec<u8>>,
    /// True if pages are zero where nothing was put.
    has_holes: bool,
}

impl Memory {
    pub(super) fn new(has_holes: bool) -> Self {
        Self {
            pages: HashMap::new(),
            has_holes,
        }
    }

    /// Puts bytes at a physical address. Pages are zero where nothing is put.
    pub(super) fn put(&mut self, address: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = address + done as u64;
            let page = self.pages.entry(at / PAGE as u64);
            let page = page.or_insert_with(|| vec![0; PAGE]);
            let offset = at as usize % PAGE;
            let len = (PAGE - offset).min(bytes.len() - done);
            page[offset..offset + len].copy_from_slice(&bytes[done..done + len]);
            done += len;
        }
    }

    pub(super) fn put64(&mut self, address: u64, value: u64) {
        self.put(address, &value.to_le_bytes());
    }

    pub(super) fn get64(&self, address: u64) -> u64 {
        let at = address as usize % PAGE;
        let page = self.pages.get(&(address / PAGE as u64));
        let word = page.map_or(&[][..], |page| &page[at..at + 8]);
        u64::from_le_bytes(word.try_into().unwrap_or_default())
    }

    pub(super) fn clear(&mut self, frame: u64) {
        self.pages.insert(frame, vec![0; PAGE]);
    }

    /// Returns the page frames in which something was put.
    pub(super) fn frames(&self) -> impl Iterator<Item = u64> {
        self.pages.keys().copied()
    }

    pub(super) fn page(&self, frame: u64) -> Vec<u8> {
        match self.pages.get(&frame) {
            Some(page) => page.clone(),
            None if self.has_holes => vec![0; PAGE],
            None => frame.to_le_bytes().repeat(PAGE / 8),
        }
    }
}
