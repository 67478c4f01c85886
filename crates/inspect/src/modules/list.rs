//! The list of modules, and what is known of each.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use bigiron_format::VirtAddr;
use bigiron_kernel::symbols::Symbols;
use bigiron_kernel::types::btf::Btf;
use serde::Serialize;

use crate::error::InspectError;
use crate::json::hexadecimal;

/// Maximum number of modules; machines have 50 to 300.
pub(super) const MAX_MODULES: usize = 4096;

/// The struct btf of each struct module.
pub type BtfAddresses = Result<HashMap<VirtAddr, VirtAddr>, String>;

/// The modules of a kernel.
#[derive(Debug, Serialize)]
pub struct Modules {
    /// In the kernel's order: youngest first.
    pub list: Vec<Module>,
    /// The reason why the list may be incomplete or is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Address range of the kernel image.
    #[serde(skip)]
    pub(super) image: Range<u64>,
    /// Memory that is left for symbols and types.
    #[serde(skip)]
    pub(super) left: AtomicUsize,
    /// The regions by start address, with the positions of their modules.
    #[serde(skip)]
    pub(super) by_address: Vec<(Region, usize)>,
    /// Addresses of their types.
    #[serde(skip)]
    pub(super) btf_addresses: OnceLock<BtfAddresses>,
}

/// A module.
#[derive(Debug, Serialize)]
pub struct Module {
    /// Name.
    pub name: String,
    /// Address of its struct module.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Start of its code, as in /proc/modules.
    #[serde(serialize_with = "hexadecimal")]
    pub base: VirtAddr,
    /// Size of all its memory, as printed by lsmod.
    pub size: u64,
    /// `live`, `coming`, `going` or `unformed`.
    pub state: String,
    /// Number of users, including other modules; `None` without CONFIG_MODULE_UNLOAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<i64>,
    /// The modules that use it.
    pub used_by: Vec<String>,
    /// Its taint letters.
    pub taints: String,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Build id, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Its memory.
    pub regions: Vec<Region>,
    /// Fields that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    #[serde(skip)]
    pub(super) symbols: OnceLock<Symbols>,
    #[serde(skip)]
    pub(super) types: OnceLock<Result<Btf, String>>,
}

/// A memory region of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Name: `text`, `data`, `rodata`, `init_text`; `core` and `init` for kernels that do not
    /// separate them.
    pub name: String,
    /// Start address.
    #[serde(serialize_with = "hexadecimal")]
    pub start: VirtAddr,
    /// Size, in bytes.
    pub size: u64,
}

impl Region {
    /// Returns true if the address is in the region.
    pub fn holds(&self, address: VirtAddr) -> bool {
        (address.0.checked_sub(self.start.0)).is_some_and(|offset| offset < self.size)
    }
}

impl Module {
    /// Returns the value, or records why it is missing.
    pub(super) fn take<T>(&mut self, what: &str, found: Result<T, InspectError>) -> Option<T> {
        found
            .map_err(|error| self.missing.push(format!("{what}: {error}")))
            .ok()
    }
}

impl Modules {
    /// Reserves memory from the limit; returns false if it is exceeded.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let room = |left: usize| left.checked_sub(bytes);
        let order = Ordering::Relaxed;
        self.left.fetch_update(order, order, room).is_ok()
    }

    /// Sorts the regions by address.
    pub(super) fn sort_regions(&mut self) {
        let all = self.list.iter().enumerate();
        let regions = all.flat_map(|(index, module)| {
            let regions = module.regions.iter().cloned();
            regions.map(move |region| (region, index))
        });
        self.by_address = regions.collect();
        self.by_address.sort_by_key(|(region, _)| region.start.0);
    }

    /// Returns the module and its region that contain an address: the last one that starts at
    /// or before it. Regions of an intact kernel do not overlap.
    pub fn at(&self, address: VirtAddr) -> Option<(&Module, &Region)> {
        let sorted = &self.by_address;
        let behind = sorted.partition_point(|(region, _)| region.start.0 <= address.0);
        let (region, index) = sorted.get(behind.checked_sub(1)?)?;
        let module = self.list.get(*index)?;
        region.holds(address).then_some((module, region))
    }

    /// Finds a module by name; `-` and `_` are equal, as in modprobe.
    pub fn find(&self, name: &str) -> Option<&Module> {
        let name = name.replace('-', "_");
        let mut all = self.list.iter();
        all.find(|module| module.name.replace('-', "_") == name)
    }
}
