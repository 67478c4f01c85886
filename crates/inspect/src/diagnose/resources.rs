//! Remarks about resources of the kernel that are used up, or wasted: memory cgroups that were
//! removed but still have memory, address space of vmalloc, per-CPU memory, and time of CPUs that
//! the hypervisor gave to others.
//!
//! Relies on `cgrp_dfl_root` (struct cgroup `nr_dying_descendants`, include/linux/cgroup-defs.h),
//! on the log's lines of alloc_vmap_area (mm/vmalloc.c) and pcpu_alloc (mm/percpu.c), and on the
//! time that the hypervisor tells (`run_queues`).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::program::Program;
use crate::run_queues::steal;

/// Kind.
pub const KIND: &str = "resources";
/// Removed cgroups that are worth a remark: each has some hundred KiB on a machine with many CPUs.
const DYING: u64 = 1000;
/// The part of a CPU's time that is: one of five.
const STOLEN_OF: u64 = 5;
/// Lines of the log: what they contain, and what ran out.
const EXHAUSTED: [(&str, &str); 3] = [
    ("vmap allocation for size ", "the address space of vmalloc"),
    ("vmalloc error: size ", "memory for vmalloc"),
    ("percpu: allocation failed, size=", "per-CPU memory"),
];

/// The remarks.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let program = evidence.program;
    let mut found: Vec<Finding> = exhausted(evidence).collect();
    found.extend(dying(program));
    found.extend(stolen(program));
    Ok(found)
}

/// What ran out, as the log says.
fn exhausted(evidence: &Evidence) -> impl Iterator<Item = Finding> {
    EXHAUSTED.into_iter().filter_map(|(known, what)| {
        let report = evidence.log().last_report(|line| line.contains(known))?;
        let finding = Finding::new(KIND, 45, Sure::Likely, format!("{what} ran out"));
        let finding = finding.because(format!("the log: {}", report.first()?));
        Some(finding.more("bigiron info --memory DUMP"))
    })
}

/// Cgroups that were removed, but that memory or others keep.
fn dying(program: &Program) -> Option<Finding> {
    let root = program.symbol("cgrp_dfl_root").ok()?;
    let count = |member: &str| {
        program
            .value(root, "cgroup_root", &format!("cgrp.{member}"))
            .ok()
    };
    let dying = count("nr_dying_descendants").filter(|dying| *dying >= DYING)?;
    let living = count("nr_descendants").unwrap_or(0);
    let title = format!("{dying} cgroups were removed and still use memory; {living} are in use");
    let finding = Finding::new(KIND, 30, Sure::Certain, title);
    let finding = finding.because("nr_dying_descendants of the root cgroup says so");
    Some(finding.place(program, "cgrp_dfl_root", root))
}

/// CPUs that the hypervisor did not run for much of their time.
fn stolen(program: &Program) -> Option<Finding> {
    let mut because = Vec::new();
    let mut cpus = Vec::new();
    for cpu in online_cpus(program, &mut Vec::new()) {
        let up = program
            .per_cpu("runqueues", cpu)
            .and_then(|queue| program.value(queue, "rq", "clock"));
        let (Ok(up), Some(steal)) = (up, steal(program, cpu)) else {
            continue;
        };
        if up > 0 && steal >= up / STOLEN_OF {
            cpus.push(cpu);
            because.push(format!(
                "CPU {cpu}: {} of {} since boot",
                seconds(steal),
                seconds(up)
            ));
        }
    }
    let first = *cpus.first()?;
    let title = format!(
        "the hypervisor did not run {} CPUs, as CPU {first}, for much of their time (steal)",
        cpus.len()
    );
    let mut finding = Finding::new(KIND, 40, Sure::Certain, title);
    for reason in because {
        finding = finding.because(reason);
    }
    for cpu in cpus {
        finding = finding.cpu(cpu);
    }
    Some(finding.more("bigiron info --run-queues DUMP"))
}
