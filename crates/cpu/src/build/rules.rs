//! Differences between kernels that change their domains.

/// Architecture, which determines the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// SMT, CLS, MC and the package (build_sched_topology, arch/x86/kernel/smpboot.c). There is
    /// no package level if a package has several memory nodes.
    X86,
    /// SMT, CACHE, MC and the node (powerpc_topology, arch/powerpc/kernel/smp.c). All
    /// CPUs of a small core share its cache.
    Power,
    /// SMT, CLS, MC and the node (default_topology): arm64 and others.
    Generic,
}

/// Differences between kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Architecture, which determines the levels.
    pub architecture: Architecture,
    /// True for the names introduced from 6.7 to 6.10: PKG instead of DIE, SD_SHARE_LLC instead
    /// of SD_SHARE_PKG_RESOURCES, and SD_CLUSTER for clusters.
    pub new_names: bool,
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
}
