//! Differences between kernels that change their domains.

use std::path::Path;

/// Architecture, which determines the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// SMT, CLS, MC and the package (build_sched_topology, arch/x86/kernel/smpboot.c). There is
    /// no package level if a package has several memory nodes.
    X86,
    /// SMT, CACHE, MC and the node (powerpc_topology, arch/powerpc/kernel/smp.c). All
    /// CPUs of a small core share its cache. There is no MC level without coregroups, and since
    /// 6.8 no CACHE level if no cores share a cache.
    Power,
    /// SMT, CLS, MC and the node (default_topology): arm64 and others. MC is the smallest of
    /// node, package and last-level cache (cpu_coregroup_mask, drivers/base/arch_topology.c).
    Generic,
}

impl Architecture {
    /// Architecture for which this program was built.
    pub const HOST: Self = if cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
        Self::X86
    } else if cfg!(any(target_arch = "powerpc64", target_arch = "powerpc")) {
        Self::Power
    } else {
        Self::Generic
    };

    /// Returns the architecture of a machine by files that only its kernel has in
    /// `/sys/devices/system`, or in a copy of it; `None` if there are none.
    pub fn of_directory(directory: &Path) -> Option<Self> {
        let has = |name: &str| directory.join("cpu/cpu0").join(name).exists();
        // arch/powerpc/kernel/sysfs.c; arch/arm64/kernel/cpuinfo.c.
        if has("physical_id") {
            Some(Self::Power)
        } else if has("regs/identification") {
            Some(Self::Generic)
        } else {
            None
        }
    }
}

/// Differences between kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Architecture, which determines the levels.
    pub architecture: Architecture,
    /// True for the names introduced from 6.7 to 6.10: PKG instead of DIE, SD_SHARE_LLC instead
    /// of SD_SHARE_PKG_RESOURCES, and SD_CLUSTER for clusters.
    pub new_names: bool,
    /// True if the kernel has a level for clusters (CONFIG_SCHED_CLUSTER); Debian's kernels for
    /// arm64 have none.
    pub clusters: bool,
    /// True if a group takes over the flags of the domain that replaced its child
    /// (bf2dc42d6beb, 6.6).
    pub groups_follow: bool,
    /// Distance above which nodes are not balanced at fork and exec (node_reclaim_distance).
    pub reclaim_distance: u32,
}

impl Rules {
    /// Linux 6.1 on x86.
    pub const LINUX_6_1: Self = Self {
        architecture: Architecture::X86,
        new_names: false,
        clusters: true,
        groups_follow: false,
        // RECLAIM_DISTANCE, include/linux/topology.h.
        reclaim_distance: 30,
    };
    /// Linux 6.12 on x86.
    pub const LINUX_6_12: Self = Self {
        new_names: true,
        groups_follow: true,
        ..Self::LINUX_6_1
    };

    /// Returns the same kernel on another architecture.
    #[must_use]
    pub const fn on(self, architecture: Architecture) -> Self {
        Self {
            architecture,
            reclaim_distance: match architecture {
                // RECLAIM_DISTANCE, arch/powerpc/include/asm/topology.h.
                Architecture::Power => 10,
                Architecture::X86 | Architecture::Generic => Self::LINUX_6_1.reclaim_distance,
            },
            ..self
        }
    }
}
