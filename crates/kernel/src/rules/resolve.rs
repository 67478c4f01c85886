//! Finds the page frames of each rule.

use std::time::Instant;

use bigiron_format::{PageFrame, VirtAddr};

use super::owners::{self, Owner};
use super::resolved::{ResolvedRule, ResolvedRules};
use super::rule::{Action, Rule, Rules, Selector};
use super::{objects, processes};
use crate::erase::Walker;
use crate::frame_set::FrameSet;
use crate::guard;
use crate::kernel::Kernel;
use crate::symbols::kallsyms;
use crate::types::btf;

/// Maximum number of nodes (CONFIG_NODES_SHIFT is at most 10).
const MAX_NODES: u64 = 1 << 12;

/// Resolves `rules` for a kernel. A rule that cannot be resolved has no page frames.
pub fn resolve(rules: &Rules, kernel: &Kernel) -> ResolvedRules {
    let mut resolved: Vec<_> = rules.0.iter().map(ResolvedRule::empty).collect();
    let needs_names =
        |rule: &Rule| !matches!(rule.selector, Selector::Physical(_) | Selector::Node(_));
    let names = match rules.0.iter().any(needs_names) {
        true => names(kernel),
        false => Err(String::new()),
    };
    let walker = match &names {
        Ok((symbols, types)) => {
            let moved = kernel.info().kernel_offset().unwrap_or(0);
            Ok(Walker::new(kernel, symbols, types, moved))
        }
        Err(error) => Err(error.clone()),
    };
    let mut by_owner = Vec::new();
    for (index, (rule, found)) in rules.0.iter().zip(&mut resolved).enumerate() {
        let begin = Instant::now();
        match &walker {
            Ok(walker) => match Owner::of(walker, index, &rule.selector) {
                Some(Ok(owner)) => by_owner.push(owner),
                Some(Err(error)) => found.problem = Some(error),
                None => found.resolve(rule, kernel, Ok(walker)),
            },
            Err(error) => found.resolve(rule, kernel, Err(error)),
        }
        found.time = begin.elapsed();
    }
    if let (Ok(walker), Some(first)) = (&walker, by_owner.first()) {
        let (first, begin) = (first.index, Instant::now());
        let scanned = owners::scan(kernel, walker, &mut by_owner);
        for mut owner in by_owner {
            let problem = scanned.clone().err().or_else(|| owner.problem());
            if let Some(found) = resolved.get_mut(owner.index) {
                found.frames = owner.frames;
                found.problem = problem;
            }
        }
        if let Some(found) = resolved.get_mut(first) {
            found.time += begin.elapsed();
        }
    }
    resolved.iter_mut().for_each(ResolvedRule::finish);
    ResolvedRules::new(resolved, guard::of(kernel))
}

impl ResolvedRule {
    fn resolve(&mut self, rule: &Rule, kernel: &Kernel, walker: Result<&Walker, &String>) {
        let frames = &mut self.frames;
        let walker = walker.map_err(Clone::clone);
        let result = match &rule.selector {
            Selector::Physical(ranges) => {
                add_ranges(kernel, ranges, rule.action, frames);
                Ok(None)
            }
            Selector::Node(node) => add_node(kernel, *node, frames).map(|()| None),
            Selector::Process(pattern) => {
                walker.and_then(|walker| processes::add(kernel, walker, pattern, frames))
            }
            Selector::Pages(command) => walker.and_then(|walker| {
                let objects = walker.pointed(command);
                let problem = objects::add_pages(kernel, &objects, frames)?;
                Ok(objects.problem.or(problem))
            }),
            Selector::Bytes(command) => walker.map(|walker| {
                let objects = walker.objects(command);
                let problem = objects::add_bytes(kernel, &objects, rule.action, frames);
                objects.problem.or(problem)
            }),
            Selector::SlabCache(_) | Selector::FileSystem(_) | Selector::Cgroup(_) => {
                walker.map(|_| None)
            }
        };
        self.problem = result.unwrap_or_else(Some);
    }

    fn finish(&mut self) {
        self.frames.finish();
        let refused = self.frames.refused();
        if refused > 0 && self.problem.is_none() {
            self.problem = Some(format!(
                "{refused} of its page frames are too scattered to be remembered, and are treated \
                 as if there were no rule"
            ));
        }
    }
}

/// Returns the kernel's symbols and types.
fn names(kernel: &Kernel) -> Result<(crate::symbols::Symbols, btf::Btf), String> {
    let text = |error: crate::KernelError| error.to_string();
    let symbols = kallsyms::read(kernel).map_err(text)?;
    let symbols = symbols.ok_or(
        "the kernel's symbols are not known: VMCOREINFO names no kallsyms (Linux 6.0 and later do)",
    )?;
    let types = btf::from_memory(kernel, &symbols).map_err(text)?;
    let types = types.ok_or("the kernel's types are not known: it has no BTF")?;
    Ok((symbols, types))
}

/// Adds ranges of physical addresses: to keep, page frames that have any of them; to drop and to
/// blank, those that have nothing else.
fn add_ranges(kernel: &Kernel, ranges: &[(u64, u64)], action: Action, frames: &mut FrameSet) {
    let shift = kernel.source().page_shift();
    for (first, last) in ranges {
        let end = last.saturating_add(1);
        let (start, end) = match action {
            Action::Keep => (first >> shift, (last >> shift) + 1),
            Action::Drop | Action::Blank => (first.div_ceil(1 << shift), end >> shift),
        };
        frames.add(PageFrame(start), PageFrame(end));
    }
}

/// Adds the page frames that a node spans.
fn add_node(kernel: &Kernel, node: u64, frames: &mut FrameSet) -> Result<(), String> {
    let info = kernel.info();
    let key = |name: &str| {
        let offset = info.offset(name);
        offset.ok_or_else(|| format!("VMCOREINFO has no OFFSET({name})"))
    };
    let (start, count) = (
        key("pglist_data.node_start_pfn")? as u64,
        key("pglist_data.node_spanned_pages")? as u64,
    );
    let read = |at: u64| {
        let found = kernel.read_u64("a node of memory", VirtAddr(at));
        found.map_err(|error| error.to_string())
    };
    let at = match (info.symbol("node_data"), info.symbol("contig_page_data")) {
        (Some(table), _) => {
            let length = info.length("node_data").unwrap_or(0) as u64;
            match node < length.min(MAX_NODES) {
                true => read(table.0.wrapping_add(8 * node))?,
                false => 0,
            }
        }
        (None, Some(only)) if node == 0 => only.0,
        (None, Some(_)) => 0,
        (None, None) => return Err("VMCOREINFO names no nodes of memory".into()),
    };
    if at == 0 {
        return Err(format!("there is no node {node}"));
    }
    let first = read(at.wrapping_add(start))?;
    let end = first.saturating_add(read(at.wrapping_add(count))?);
    frames.add(PageFrame(first), PageFrame(end));
    Ok(())
}
