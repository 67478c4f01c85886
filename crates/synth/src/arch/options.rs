//! Properties of a machine that depend on its architecture.

use crate::kernels::{HeadLink, Kernel, PageFlags, ZoneLayout};
use crate::platform::Platform;
use crate::spec::{Options, Spec};

impl Options {
    /// Returns the defaults of an architecture.
    pub fn of(platform: &Platform) -> Self {
        let mut options = Self {
            memory_failure: platform.arch().memory_failure(),
            ..Self::default()
        };
        platform.arch().default_options(platform, &mut options);
        options
    }
}

impl Spec {
    /// Returns an x86_64 machine with this kernel and nothing else.
    pub fn new(kernel: &'static Kernel) -> Self {
        Self::on(Platform::default(), kernel)
    }

    /// Returns a machine with this kernel and nothing else.
    pub fn on(platform: Platform, kernel: &'static Kernel) -> Self {
        Self {
            options: Options::of(&platform),
            platform,
            kernel,
            ram: Vec::new(),
            nodes: Vec::new(),
            runs: Vec::new(),
            log: None,
        }
    }

    pub(crate) fn head_link(&self) -> HeadLink {
        let own = match self.kernel.head_link {
            HeadLink::Pointer => HeadLink::Pointer,
            HeadLink::InfoMask => self.platform.arch().head_link(),
        };
        self.options.head_link.unwrap_or(own)
    }

    /// Returns the numbers of page flags. The presets count CONFIG_ARCH_USES_PG_UNCACHED, which
    /// only x86 has; PG_hwpoison follows PG_uncached. 6.12 removes the option (7a87225ae2c6).
    pub(crate) fn flags(&self) -> PageFlags {
        let mut flags = self.kernel.flags;
        if self.platform != Platform::default() && !self.kernel.since(6, 12) {
            flags.hwpoison -= 1;
        }
        flags
    }

    /// True if VMCOREINFO describes `unaccepted` pages, which only confidential guests have.
    pub(crate) fn has_unaccepted(&self) -> bool {
        self.kernel.has_unaccepted() && self.platform.name == "x86_64"
    }

    pub(crate) fn zones(&self) -> ZoneLayout {
        self.platform.arch().zones(self.kernel)
    }

    /// Returns the number of orders of the buddy allocator's blocks: LENGTH(zone.free_area).
    pub(crate) fn page_orders(&self) -> u8 {
        self.platform.arch().page_orders(&self.platform)
    }
}
