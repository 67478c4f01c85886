//! The user memory of processes, by their page tables.

use std::collections::HashSet;

use bigiron_format::{PageFrame, PhysAddr, VirtAddr};

use super::rule::Pattern;
use crate::arch::SeeTables;
use crate::erase::Walker;
use crate::frame_set::FrameSet;
use crate::kernel::Kernel;

/// The list of processes, in the words of makedumpfile.conf(5).
const PROCESSES: &str = "task in init_task:task_struct.tasks within task_struct:tasks";
/// Size of a task's name (TASK_COMM_LEN).
const NAME: usize = 16;
/// Bytes of the dump's memory that limit the number of page tables.
const MAX_TABLE_BYTES: u64 = 1 << 32;

/// Adds the page frames that processes of a name have mapped. Returns why some are not found.
pub(super) fn add(
    kernel: &Kernel,
    walker: &Walker,
    pattern: &Pattern,
    frames: &mut FrameSet,
) -> Result<Option<String>, String> {
    let mut seen = HashSet::new();
    let mut problem = None;
    let shift = kernel.source().page_shift();
    let most = kernel.size_up_to(MAX_TABLE_BYTES) >> shift;
    let ended = walker.each(PROCESSES, &mut |task| {
        let found = walker.text(task, "comm", NAME).and_then(|name| {
            if !pattern.matches(&name) {
                return Ok(());
            }
            // A kernel thread has no memory of its own.
            let Some(pgd) = walker.pointer(task, "mm.pgd")? else {
                return Ok(());
            };
            let top = kernel.translate(VirtAddr(pgd));
            let top = top.map_err(|error| error.to_string())?;
            let top = top.ok_or_else(|| format!("the page table at {pgd:#x} is not mapped"))?;
            if !seen.insert(top.physical) {
                return Ok(());
            }
            let mut pages = UserPages {
                shift,
                frames: &mut *frames,
            };
            match kernel.visit_user_tables(top.physical, most, &mut pages) {
                true => Ok(()),
                false => Err("user page tables of this architecture are not read".into()),
            }
        });
        if let Err(error) = found {
            problem.get_or_insert(error);
        }
    });
    match (seen.is_empty(), ended.err().or(problem)) {
        (true, Some(problem)) => Err(problem),
        (true, None) => Ok(Some("there is no such process".into())),
        (false, problem) => Ok(problem),
    }
}

/// Collects what user page tables map.
struct UserPages<'a> {
    shift: u32,
    frames: &'a mut FrameSet,
}

impl SeeTables for UserPages<'_> {
    fn table(&mut self, _: PhysAddr, _: u64) {}

    fn wants(&self, _: (u64, u64)) -> bool {
        true
    }

    fn mapping(&mut self, _: VirtAddr, at: PhysAddr, size: u64) {
        let first = at.0 >> self.shift;
        let end = first.saturating_add(size >> self.shift);
        self.frames.add(PageFrame(first), PageFrame(end));
    }
}
