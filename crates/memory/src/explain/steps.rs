//! Operations on large memory, and which of them can be faster.

use std::collections::BTreeMap;

use bigiron_helpers::format_size;
use serde::Serialize;

use super::Facts;

const HUGE: &str = "/sys/kernel/mm/transparent_hugepage";
const HUGE_SHARED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const HUGE_PRIVATE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Size in KiB of huge pages with pages of 4 KiB.
const USUAL_KIB: u64 = 2 << 10;

/// Verdict for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Faster with each helper, or in huge pages.
    Faster,
    /// Faster in part, or not for all users.
    Partly,
    /// As fast as the plain call.
    Plain,
}

/// An operation on large memory, with its verdict.
#[derive(Debug, Serialize)]
pub struct Stage {
    /// Name of the operation.
    pub step: &'static str,
    /// Verdict on this machine.
    pub verdict: Verdict,
    /// Reason.
    pub why: String,
    /// Changes that would make the operation faster; may be empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<String>,
}

impl Stage {
    fn new(step: &'static str, verdict: Verdict, why: impl Into<String>) -> Self {
        Self {
            step,
            verdict,
            why: why.into(),
            change: Vec::new(),
        }
    }

    fn change(mut self, what: impl Into<String>) -> Self {
        self.change.push(what.into());
        self
    }
}

/// Returns all operations, in the order of a segment's life.
pub(super) fn steps(facts: &Facts) -> Vec<Stage> {
    vec![
        create(facts),
        huge_shared(facts),
        huge_private(facts),
        pools(facts),
        lock(facts),
        unmap(facts),
        destroy(facts),
        reaper(facts),
        limits(facts),
        programs(facts),
    ]
}

fn create(facts: &Facts) -> Stage {
    let name = "create in small pages";
    if !facts.madv_populate {
        let why = "this kernel refuses MADV_POPULATE_READ, so pages are populated by touching them";
        return Stage::new(name, Verdict::Plain, why).change("Linux 5.14 or later");
    }
    if facts.processors < 2 {
        let why = "this process may use one processor only";
        return Stage::new(name, Verdict::Plain, why)
            .change("extend the affinity (taskset) or the control group's cpu.max");
    }
    let why = format!("by up to {} helpers", facts.processors.min(16));
    let step = Stage::new(name, Verdict::Faster, why);
    if facts.processors < facts.processors_online {
        return step.change(
            "extend the affinity (taskset) or the control group's cpu.max to all processors",
        );
    }
    step
}

fn huge_shared(facts: &Facts) -> Stage {
    let step = huge_shared_by_setting(facts);
    let file = |kib| format!("{HUGE}/hugepages-{kib}kB/shmem_enabled");
    with_size(step, facts, &facts.huge_shared_by_size, file)
}

/// Adds the size of huge pages where it is larger than usual: memory that is smaller has none,
/// and the rest of each mapping is in smaller pages, which are then worth being enabled.
fn with_size(
    mut step: Stage,
    facts: &Facts,
    by_size: &BTreeMap<u64, String>,
    file: impl Fn(u64) -> String,
) -> Stage {
    let large = |size: &u64| *size > USUAL_KIB << 10;
    let Some(size) = facts.huge_page_size.filter(large) else {
        return step;
    };
    if step.verdict == Verdict::Plain {
        return step;
    }
    let smaller = by_size.iter().filter(|(kib, _)| **kib << 10 < size);
    let enabled = smaller.clone().filter(|(_, setting)| *setting != "never");
    let enabled = enabled.max_by_key(|(kib, _)| **kib);
    let rest = match enabled {
        Some((kib, _)) => format!("pages of up to {}", format_size(kib << 10)),
        None => "small pages".to_owned(),
    };
    step.why += &format!("; a huge page has {}, ", format_size(size));
    step.why += &if size <= facts.available_bytes {
        format!("and memory outside of whole ones has {rest}")
    } else {
        step.verdict = enabled.map_or(Verdict::Plain, |_| Verdict::Partly);
        let available = format_size(facts.available_bytes);
        format!("more than the available {available}: memory has {rest}")
    };
    let usual = smaller.filter(|(kib, _)| **kib <= USUAL_KIB);
    match usual.max_by_key(|(kib, _)| **kib) {
        Some((kib, setting)) if setting == "never" => step.change(format!(
            "smaller huge pages too: echo inherit > {}",
            file(*kib)
        )),
        _ => step,
    }
}

fn huge_shared_by_setting(facts: &Facts) -> Stage {
    let name = "create in huge pages, shared";
    match facts.huge_shared.as_str() {
        "always" | "within_size" | "force" | "advise" => {
            let why = format!("shmem_enabled is {}", facts.huge_shared);
            Stage::new(name, Verdict::Faster, why)
        }
        "deny" | "" => {
            let why = match facts.huge_shared.as_str() {
                "" => "this kernel has no transparent huge pages for shared memory",
                _ => "shmem_enabled is deny",
            };
            Stage::new(name, Verdict::Plain, why).change(format!("echo advise > {HUGE_SHARED}"))
        }
        other => {
            let verdict = if facts.madv_collapse {
                Verdict::Partly
            } else {
                Verdict::Plain
            };
            let by = if facts.madv_collapse {
                "; small pages are collapsed when memory is populated as a whole (MADV_COLLAPSE)"
            } else {
                ""
            };
            Stage::new(name, verdict, format!("shmem_enabled is {other}{by}"))
                .change(format!("echo advise > {HUGE_SHARED}"))
        }
    }
}

fn huge_private(facts: &Facts) -> Stage {
    let step = huge_private_by_setting(facts);
    let file = |kib| format!("{HUGE}/hugepages-{kib}kB/enabled");
    with_size(step, facts, &facts.huge_pages_by_size, file)
}

fn huge_private_by_setting(facts: &Facts) -> Stage {
    let name = "create in huge pages, private";
    match facts.huge_pages.as_str() {
        "" => Stage::new(
            name,
            Verdict::Plain,
            "this kernel has no transparent huge pages",
        ),
        "never" => Stage::new(
            name,
            Verdict::Plain,
            "transparent_hugepage/enabled is never",
        )
        .change(format!("echo madvise > {HUGE_PRIVATE}")),
        setting => {
            let why = format!("transparent_hugepage/enabled is {setting}");
            Stage::new(name, Verdict::Faster, why)
        }
    }
}

fn pools(facts: &Facts) -> Stage {
    let name = "hugetlb pools";
    let free: Vec<String> = facts
        .pools
        .iter()
        .filter(|(_, pool)| pool.pages > 0)
        .map(|(kib, pool)| {
            format!(
                "{} of {} of {} free",
                pool.free,
                pool.pages,
                format_size(kib << 10)
            )
        })
        .collect();
    if free.is_empty() {
        // The pool that programs use without naming a size. Others may be far smaller or larger:
        // arm64 has pools of 64 KiB, and of 16 GiB.
        let usual = facts
            .default_pool
            .filter(|kib| facts.pools.contains_key(kib));
        let change = match usual.or(facts.pools.keys().next().copied()) {
            Some(kib) => {
                format!("echo PAGES > /sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages")
            }
            None => "a kernel with CONFIG_HUGETLBFS".to_owned(),
        };
        return Stage::new(name, Verdict::Plain, "all hugetlb pools are empty").change(change);
    }
    Stage::new(name, Verdict::Faster, free.join(", "))
}

fn lock(facts: &Facts) -> Stage {
    let name = "lock";
    let limit = match facts.locked_limit {
        Some(limit) if !facts.may_lock_all => limit,
        _ => u64::MAX,
    };
    let small = limit < facts.available_bytes;
    let why = match (facts.madv_populate && facts.processors > 1, small) {
        (_, true) => format!("RLIMIT_MEMLOCK is {}", format_size(limit)),
        (true, false) => "helpers populate the pages first".to_owned(),
        (false, false) => "by one processor".to_owned(),
    };
    let step = Stage::new(
        name,
        match (facts.madv_populate && facts.processors > 1, small) {
            (true, false) => Verdict::Faster,
            (true, true) => Verdict::Partly,
            (false, _) => Verdict::Plain,
        },
        why,
    );
    if small {
        return step.change("ulimit -l, limits.conf(5), LimitMEMLOCK= of systemd, or CAP_IPC_LOCK");
    }
    step
}

fn unmap(facts: &Facts) -> Stage {
    let name = "unmap and detach";
    if facts.processors < 2 {
        return Stage::new(
            name,
            Verdict::Plain,
            "this process may use one processor only",
        );
    }
    if facts.madv_dontneed_locked {
        return Stage::new(name, Verdict::Faster, "helpers tear down the page tables");
    }
    let why = "helpers tear down the page tables, except those of locked memory";
    Stage::new(name, Verdict::Partly, why).change("Linux 5.18 or later")
}

fn destroy(facts: &Facts) -> Stage {
    let name = "free the pages";
    let has_huge = matches!(
        facts.huge_shared.as_str(),
        "always" | "within_size" | "force" | "advise"
    ) || (facts.huge_shared == "never" && facts.madv_collapse);
    let why = "the kernel frees the small pages of a segment or file with one processor";
    if has_huge {
        let why = format!("{why}; there are few huge pages");
        return Stage::new(name, Verdict::Partly, why)
            .change("stripe the memory over several files: bigiron mem create --stripes");
    }
    Stage::new(name, Verdict::Plain, why)
        .change(format!("use huge pages: echo advise > {HUGE_SHARED}"))
        .change("stripe the memory over several files: bigiron mem create --stripes")
}

fn reaper(facts: &Facts) -> Stage {
    let name = "reaper";
    if facts.reaper {
        let why = "a separate process frees 256 MiB and more, while the caller goes on";
        return Stage::new(name, Verdict::Faster, why);
    }
    let why = if facts.seccomp {
        "the seccomp filter of this process may kill programs that start others"
    } else {
        "orphans of this process are adopted by a program that may not expect them"
    };
    let step = Stage::new(name, Verdict::Plain, why);
    if facts.seccomp {
        return step.change("run without a seccomp filter");
    }
    step.change("run an init in the container (docker run --init)")
}

fn limits(facts: &Facts) -> Stage {
    let name = "limits";
    let mut step = Stage::new(
        name,
        Verdict::Faster,
        "no limit is below the available memory",
    );
    let mut low = Vec::new();
    for (limit, bytes, change) in [
        ("kernel.shmmax", facts.shmmax, "sysctl kernel.shmmax"),
        ("kernel.shmall", facts.shmall_bytes, "sysctl kernel.shmall"),
    ] {
        if bytes < facts.available_bytes {
            low.push(format!("{limit} allows {}", format_size(bytes)));
            step = step.change(change);
        }
    }
    if let Some(left) = facts
        .control_group_bytes
        .filter(|left| *left <= facts.available_bytes)
    {
        low.push(format!(
            "the control group allows {} more",
            format_size(left)
        ));
        step = step.change("memory.max of the control group (MemoryMax= of systemd)");
    }
    if !low.is_empty() {
        step.verdict = Verdict::Partly;
        step.why = low.join(", ");
    }
    step
}

fn programs(facts: &Facts) -> Stage {
    let name = "unchanged programs";
    match &facts.preload_library {
        Some(path) => {
            let why = format!("bigiron mem run uses {path}");
            Stage::new(name, Verdict::Faster, why)
        }
        None => Stage::new(name, Verdict::Plain, "libbigiron_preload.so was not found").change(
            "install it next to bigiron or in ../lib/bigiron, or set BIGIRON_PRELOAD to its path",
        ),
    }
}

#[cfg(test)]
mod tests;
