//! What a machine's text must not contradict.

use crate::error::SynthError;
use crate::kernels::HeadLink;
use crate::layout::PAGE_STRUCT;
use crate::spec::{Class, Leaf, Run, Spec};
use crate::stacks::MOST_CALLS;

impl Spec {
    /// Checks the options against the kernel; `line` is 0 for a machine without text.
    pub(crate) fn check_options(&self, line: usize) -> Result<(), SynthError> {
        let options = &self.options;
        let fail = |message: &str| Err(SynthError::line(line, message));
        let arch = self.platform.arch();
        let first = arch.first_kernel();
        if self.kernel.version < first {
            return Err(SynthError::line(
                line,
                format!(
                    "{} needs a kernel from {}.{} on",
                    self.platform.name, first.0, first.1
                ),
            ));
        }
        let x86 = self.platform.name == "x86_64";
        let s390 = self.platform.name == "s390x";
        let only_x86 = options.phys_base.is_some() || options.vmemmap.is_some();
        if !x86 && (only_x86 || options.sme.is_some()) {
            return fail("phys_base=, vmemmap= and sme= are for x86_64");
        }
        if !x86 && !s390 && (options.page_offset.is_some() || options.levels != 0) {
            return fail("levels= and page_offset= are for x86_64 and s390x");
        }
        if let Err(message) = arch.check_options(self) {
            return fail(message);
        }
        if !matches!(options.mem_section, None | Some(16 | 32)) {
            return fail("mem_section= wants 16 or 32");
        }
        if options.vmemmap_leaf == Leaf::Giant || options.image_leaf == Leaf::Giant {
            return fail("only the direct map has leaves of the third level");
        }
        for leaf in [options.direct, options.vmemmap_leaf, options.image_leaf] {
            if self.platform.leaf_shift(leaf).is_none() {
                return fail("the architecture has no such leaf");
            }
        }
        if options.memory_failure && !arch.memory_failure() {
            return fail("memory_failure=: the architecture has none");
        }
        if options.stack > MOST_CALLS {
            return fail("stack= above 32");
        }
        if options.vmalloc > 256 {
            return fail("vmalloc= above 256");
        }
        if options.cpus > 4096 {
            return fail("cpus= above 4096");
        }
        if options.head_link.is_some() && self.kernel.head_link != HeadLink::InfoMask {
            return fail("compound_info= needs a kernel from 7.1 on");
        }
        Ok(())
    }

    /// Checks a run against the kernel; the message does not contain the line.
    pub(crate) fn check_run(&self, run: &Run) -> Result<(), SynthError> {
        let fail = |message: String| Err(SynthError::line(run.line, message));
        let name = run.class.name();
        if run.count == 0 || run.count > 1 << 24 {
            return fail(format!("n={} is out of range", run.count));
        }
        let orders = self.page_orders();
        if run.order >= orders {
            return fail(format!("order={} is above {}", run.order, orders - 1));
        }
        if run.order > 0 && !run.class.may_have_order() {
            return fail(format!("`{name}` pages have no order"));
        }
        if run.pfn & ((1 << run.order) - 1) != 0 {
            return fail(format!(
                "page frame {:#x} is not aligned to order {}",
                run.pfn, run.order
            ));
        }
        if run.class == Class::Hugetlb && run.order == 0 {
            return fail("a hugetlb page needs an order".into());
        }
        if run.class == Class::Offline && !self.kernel.has_offline() {
            return fail(format!("{} has no offline pages", self.kernel.name));
        }
        if run.class == Class::Unaccepted {
            if !self.has_unaccepted() {
                return fail(format!("{} has no unaccepted pages", self.kernel.name));
            }
            if run.order != orders - 1 {
                return fail(format!("unaccepted blocks have order {}", orders - 1));
            }
        }
        if run.private && run.class != Class::Cache {
            return fail("`private` is for cache pages".into());
        }
        if run.anon_bit && run.class != Class::Slab {
            return fail("`anonbit` is for slab pages".into());
        }
        if run.bad_order.is_some() && run.class != Class::Free {
            return fail("`badorder` is for free pages".into());
        }
        if run.hwpoison {
            if matches!(run.class, Class::Free | Class::Unaccepted) {
                return fail(format!("`{name}` pages cannot be poisoned"));
            }
            if !self.options.memory_failure {
                return fail("`hwpoison` needs memory_failure=yes".into());
            }
        }
        // All struct pages of a page of vmemmap must belong to the block. From 5.18 on, one
        // page of vmemmap is left to a hugetlb page (e7d324850bfc).
        let has_hvo = self.kernel.since(5, 18) && self.platform.arch().has_optimized_vmemmap();
        if run.hvo && !has_hvo {
            return fail(format!("{} has no `hvo`", self.kernel.name));
        }
        let two_pages = (2 * self.platform.page_size() / PAGE_STRUCT).ilog2();
        if run.hvo
            && (run.class != Class::Hugetlb
                || u32::from(run.order) < two_pages
                || self.options.vmemmap_leaf != Leaf::Small)
        {
            return fail(format!(
                "`hvo` is for hugetlb of order {two_pages} or more with vmemmap_leaf of a page"
            ));
        }
        Ok(())
    }
}
