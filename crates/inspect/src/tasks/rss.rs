//! Resident memory of tasks: mm_struct.rss_stat.

use std::collections::HashMap;

use bigiron_format::VirtAddr;
use bigiron_kernel::Steps;
use bigiron_kernel::types::{MemberLocation, Shape, resolve, size_of};

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of threads of a process whose own counts are read.
const MAX_THREADS: usize = 64 << 10;
/// Size of a CPU's part of a percpu_counter (s32, include/linux/percpu_counter.h).
const PART: u64 = 4;
/// The parts within such a range of addresses are read at once; no page is smaller.
const RANGE: u64 = 4096;
/// Maximum number of per-CPU parts, and the memory that so many take.
const MAX_PARTS: u64 = 1 << 32;
const MAX_PART_BYTES: u64 = MAX_PARTS * PART;

/// The per-CPU part of a counter of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    /// The `__percpu` pointer.
    pointer: u64,
    mm: VirtAddr,
}

/// Resident pages of address spaces.
#[derive(Debug, Default)]
pub struct Counted {
    /// By address of the mm; those that are unknown are missing. Per-CPU counters may be
    /// temporarily negative.
    sums: HashMap<VirtAddr, i64>,
    /// The reason why some are unknown.
    pub unknown: Option<String>,
}

impl Counted {
    /// Resident pages of an address space, if known.
    pub fn of(&self, mm: VirtAddr) -> Option<u64> {
        Some((*self.sums.get(&mm)?).max(0).cast_unsigned())
    }

    fn fail(&mut self, mm: VirtAddr, reason: String) {
        self.sums.remove(&mm);
        self.unknown.get_or_insert(reason);
    }
}

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
            let found = program.enumerator(name)?.map(i64::cast_unsigned);
            counters.extend(found.filter(|number| *number < 16).or(known));
        }
        Ok(Self {
            form,
            counters,
            cpus: online_cpus(program, &mut Vec::new()),
        })
    }

    /// Counts the resident pages of address spaces; `tasks` has one task of each, with the
    /// address of its mm.
    pub fn pages(&self, program: &Program, tasks: &[(VirtAddr, VirtAddr)]) -> Counted {
        let mut counted = Counted::default();
        let mut parts = Vec::new();
        for (task, mm) in tasks {
            match self.base(program, *task, *mm, &mut parts) {
                Ok(sum) => {
                    counted.sums.insert(*mm, sum);
                }
                Err(error) => counted.fail(*mm, error.to_string()),
            }
        }
        self.add_parts(program, parts, &mut counted);
        counted
    }

    /// Sums up the counters of `mm` without their per-CPU parts, which are added to `parts`.
    fn base(
        &self,
        program: &Program,
        task: VirtAddr,
        mm: VirtAddr,
        parts: &mut Vec<Part>,
    ) -> Result<i64, InspectError> {
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
                    let pointer = program.value_at(at, counters)?;
                    parts.push(Part { pointer, mm });
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
        Ok(sum)
    }

    /// Adds the per-CPU parts, range by range, so that each CPU's memory is read once.
    fn add_parts(&self, program: &Program, mut parts: Vec<Part>, counted: &mut Counted) {
        parts.retain(|part| counted.sums.contains_key(&part.mm));
        parts.sort_unstable();
        // Each part has 4 bytes of the dump's memory to itself.
        let memory = program.kernel().size_up_to(MAX_PART_BYTES);
        let steps = Steps::new(memory / PART);
        for group in parts.chunk_by(|a, b| a.pointer / RANGE == b.pointer / RANGE) {
            let count = (group.len() as u64).saturating_mul(self.cpus.len() as u64);
            let added = match steps.take(count) {
                true => self
                    .add_group(program, group, counted)
                    .map_err(|error| error.to_string()),
                false => Err(format!(
                    "not computed: {} counters of {} CPUs are more than the dump's memory can \
                     hold",
                    parts.len(),
                    self.cpus.len()
                )),
            };
            if let Err(reason) = added {
                for part in group {
                    counted.fail(part.mm, reason.clone());
                }
            }
        }
    }

    fn add_group(
        &self,
        program: &Program,
        group: &[Part],
        counted: &mut Counted,
    ) -> Result<(), InspectError> {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            return Ok(());
        };
        let endian = program.kernel().source().endian();
        let mut bytes = [0; (RANGE + PART) as usize];
        let bytes = &mut bytes[..(last.pointer - first.pointer + PART) as usize];
        let mut sums = vec![0_i64; group.len()];
        for cpu in &self.cpus {
            let at = program.per_cpu_at(VirtAddr(first.pointer), *cpu)?;
            program.read("per-CPU counters", at, bytes)?;
            for (sum, part) in sums.iter_mut().zip(group) {
                let value = endian.u32(bytes, (part.pointer - first.pointer) as usize);
                *sum = sum.saturating_add(i64::from(value.unwrap_or(0).cast_signed()));
            }
        }
        for (part, more) in group.iter().zip(sums) {
            if let Some(sum) = counted.sums.get_mut(&part.mm) {
                *sum = sum.saturating_add(more);
            }
        }
        Ok(())
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
