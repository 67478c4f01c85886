//! Resident memory of a task: mm_struct.rss_stat.

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{MemberLocation, Shape, TypeTable, resolve, size_of};

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of threads of a process whose own counts are read.
const MAX_THREADS: usize = 64 << 10;

/// How this kernel counts resident pages.
pub struct Rss {
    form: Form,
    /// Indices of the counters that make up resident memory: file, anonymous, shared.
    counters: Vec<u64>,
    cpus: Vec<usize>,
}

enum Form {
    /// A percpu_counter per kind, since 6.2 (commit f1a7941243c1): the array, its element size,
    /// and the offsets of the two parts of an element.
    PerCpu {
        array: u64,
        size: u64,
        count: MemberLocation,
        counters: MemberLocation,
    },
    /// Atomic counters, and each thread's cached share.
    Atomic { array: u64, thread: Option<u64> },
}

impl Rss {
    /// Determines the layout from the kernel's types.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let types = program.types();
        let stat = program.locate("mm_struct", "rss_stat")?;
        let form = match resolve(types, stat.type_id)?.1.shape {
            Shape::Array(element, _) => Form::PerCpu {
                array: stat.offset,
                size: size_of(types, element)?.unwrap_or(0),
                count: program.locate_in(element, "count")?,
                counters: program.locate_in(element, "counters")?,
            },
            _ => Form::Atomic {
                array: program.locate("mm_struct", "rss_stat.count")?.offset,
                // With SPLIT_RSS_COUNTING; ints.
                thread: program
                    .locate("task_struct", "rss_stat.count")
                    .ok()
                    .map(|member| member.offset),
            },
        };
        let mut counters = Vec::new();
        for (name, known) in [
            ("MM_FILEPAGES", Some(0)),
            ("MM_ANONPAGES", Some(1)),
            // Before 4.5 (commit eca56ff906bd) shared pages count as file pages.
            ("MM_SHMEMPAGES", None),
        ] {
            let found = types.enumerator(name)?.map(i64::cast_unsigned);
            counters.extend(found.filter(|number| *number < 16).or(known));
        }
        Ok(Self {
            form,
            counters,
            cpus: online_cpus(program, &mut Vec::new()),
        })
    }

    /// Resident pages of the process of `task` with the address space `mm`.
    pub fn pages(
        &self,
        program: &Program,
        task: VirtAddr,
        mm: VirtAddr,
    ) -> Result<u64, InspectError> {
        let mut sum = 0_i64;
        let mut add = |number: i64| sum = sum.saturating_add(number);
        for counter in &self.counters {
            match &self.form {
                Form::PerCpu {
                    array,
                    size,
                    count,
                    counters,
                } => {
                    let at = VirtAddr(
                        mm.0.wrapping_add(array.saturating_add(counter.saturating_mul(*size))),
                    );
                    add(program.value_at(at, count)?.cast_signed());
                    let parts = VirtAddr(program.value_at(at, counters)?);
                    for cpu in &self.cpus {
                        let part = program.number(program.per_cpu_at(parts, *cpu)?, 4)?;
                        add(i64::from((part as u32).cast_signed()));
                    }
                }
                Form::Atomic { array, .. } => {
                    let at = VirtAddr(mm.0.wrapping_add(array.saturating_add(8 * counter)));
                    add(program.number(at, 8)?.cast_signed());
                }
            }
        }
        if let Form::Atomic {
            thread: Some(offset),
            ..
        } = self.form
        {
            for thread in self.threads(program, task)? {
                for counter in &self.counters {
                    let at = VirtAddr(thread.0.wrapping_add(offset.saturating_add(4 * counter)));
                    add(i64::from((program.number(at, 4)? as u32).cast_signed()));
                }
            }
        }
        // Per-CPU counters may be temporarily negative.
        Ok(sum.max(0).cast_unsigned())
    }

    fn threads(&self, program: &Program, task: VirtAddr) -> Result<Vec<VirtAddr>, InspectError> {
        if !program.has("signal_struct", "thread_head") {
            return Ok(vec![task]);
        }
        let signal = program.pointer(task, "task_struct", "signal")?;
        let head = program.member(signal, "signal_struct", "thread_head")?;
        let walk = program.list(head, "task_struct", "thread_node", MAX_THREADS)?;
        Ok(walk.items)
    }
}
