//! Decides, section by section, which page frames a dump level keeps.

mod dom0;
mod owners;
mod result;
mod ruled;
mod scan;
mod vacant;
mod window;

use std::sync::OnceLock;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange};

use crate::error::KernelError;
use crate::frame_set::FrameSet;
use crate::guard::{self, GuardedFrames};
use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::page::{BlockClassifier, ExcludedClasses, PageLayout};
use crate::rules::ResolvedRules;
use crate::source::{MemorySource, PageReader, SECTION_FRAMES};
use crate::struct_pages::described_end;
use crate::xen::{DomainFrames, Host, Owners};

pub use result::{ExcludedCounts, GuardedCounts, SectionResult};

use dom0::Dom0Pages;
use owners::OwnerFilter;
use scan::Scan;
use window::Window;

/// The classes of pages to exclude, a sum of bits: 1 zero pages, 2 page cache without private
/// data, 4 all page cache, 8 user memory, 16 free memory (makedumpfile(8), -d).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpLevel(u8);

impl DumpLevel {
    /// Excludes every class.
    pub const MAX: Self = Self(31);
    /// Excludes every class that the hypervisor of a Xen host knows: all that is excluded without
    /// dom0's kernel.
    pub const MAX_OF_HOST: Self = Self(17);

    /// Creates a level; returns `None` above 31.
    pub fn new(level: u8) -> Option<Self> {
        (level <= Self::MAX.0).then_some(Self(level))
    }

    /// The level as a number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns true if zero pages are excluded.
    pub fn excludes_zero(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns true if the level requires struct pages.
    pub fn needs_struct_pages(self) -> bool {
        self.0 & !1 != 0
    }

    /// Returns true if pages are excluded that only a kernel's struct pages tell: page cache and
    /// user memory.
    pub fn excludes_kernel_classes(self) -> bool {
        self.0 & 14 != 0
    }

    /// Returns true if free pages are excluded.
    pub fn excludes_free(self) -> bool {
        self.0 & 16 != 0
    }

    fn wanted(self) -> ExcludedClasses {
        ExcludedClasses {
            cache: self.0 & 2 != 0,
            cache_private: self.0 & 4 != 0,
            user: self.0 & 8 != 0,
            free: self.0 & 16 != 0,
        }
    }
}

/// Decides which page frames are kept.
pub struct Filter<'a, 's> {
    source: &'a dyn MemorySource,
    /// `None` if all pages are kept, whatever the kernel uses them for.
    kernel: Option<&'a Kernel<'s>>,
    level: DumpLevel,
    wanted: ExcludedClasses,
    struct_pages: Option<(MemMap, PageLayout)>,
    /// Classifier for blocks of struct pages, if their layout allows it.
    blocks: Option<BlockClassifier>,
    blind: Option<KernelError>,
    end: PageFrame,
    /// See [`described_end`].
    described_end: Option<PageFrame>,
    /// The page frames that no class excludes.
    guarded: GuardedFrames,
    /// What the user keeps and drops, whatever the class.
    rules: Option<&'a ResolvedRules>,
    /// Pages of the memory map to exclude; see [`Self::leave_out`].
    vacant: OnceLock<FrameSet>,
    /// The Xen host, and whose page frames are kept.
    owners: Option<OwnerFilter<'a, 's>>,
    /// The filter of dom0's kernel.
    dom0: Option<Box<Self>>,
}

impl<'a, 's> Filter<'a, 's> {
    /// Creates a filter for `level`. Levels 0 and 1 read struct pages only for poisoned and
    /// offline memory, provided that VMCOREINFO knows poisoned pages (as makedumpfile does),
    /// and also work without struct pages. The kernel's rules keep and drop pages whatever the level.
    pub fn new(kernel: &'a Kernel<'s>, level: DumpLevel) -> Result<Self, KernelError> {
        let find = || -> Result<_, KernelError> {
            let layout = PageLayout::new(kernel.info(), kernel.source().endian())?;
            Ok((MemMap::find(kernel)?, layout))
        };
        let knows_poison = kernel.info().number("PG_hwpoison").is_some();
        let (struct_pages, blind) = match (level.needs_struct_pages(), knows_poison) {
            (true, _) => (Some(find()?), None),
            (false, true) => match find() {
                Ok(found) => (Some(found), None),
                Err(error) => (None, Some(error)),
            },
            (false, false) => (None, None),
        };
        let wanted = level.wanted();
        let layout = struct_pages.as_ref().map(|(_, layout)| layout);
        let described_end = struct_pages
            .as_ref()
            .and_then(|(map, _)| described_end(kernel, map));
        let guarded = match &struct_pages {
            Some((map, _)) if level.needs_struct_pages() => guard::find(kernel, map, described_end),
            _ => GuardedFrames::default(),
        };
        Ok(Self {
            source: kernel.source(),
            kernel: Some(kernel),
            level,
            wanted,
            blocks: layout.and_then(|layout| BlockClassifier::new(layout, wanted)),
            described_end,
            struct_pages,
            guarded,
            rules: kernel.rules(),
            vacant: OnceLock::new(),
            blind,
            end: kernel.source().end_frame(),
            owners: None,
            dom0: None,
        })
    }

    /// Creates a filter that keeps all pages that `source` has, for levels 0 and 1 if its kernel
    /// is not known.
    pub fn all_pages(source: &'a dyn MemorySource) -> Self {
        Self {
            source,
            kernel: None,
            level: DumpLevel::default(),
            wanted: DumpLevel::default().wanted(),
            struct_pages: None,
            blocks: None,
            blind: None,
            end: source.end_frame(),
            described_end: None,
            guarded: GuardedFrames::default(),
            rules: None,
            vacant: OnceLock::new(),
            owners: None,
            dom0: None,
        }
    }

    /// Creates a filter for the memory of a Xen host that keeps the page frames of `owners`, and
    /// at a level that excludes free memory none that is free for the hypervisor. Of dom0's
    /// memory it excludes what `dom0`, its kernel, says; see
    /// [`Self::scan_dom0_section`]. Other domains are
    /// not looked into.
    ///
    /// # Errors
    /// `level` has classes of pages that only a kernel's struct pages tell, and there is no
    /// kernel; or its struct pages are not found.
    pub fn of_host(
        source: &'a dyn MemorySource,
        host: &'a Host<'s>,
        dom0: Option<&'a Kernel<'s>>,
        owners: Owners,
        level: DumpLevel,
    ) -> Result<Self, KernelError> {
        if level.excludes_kernel_classes() && dom0.is_none() {
            return Err(KernelError::XenHost {
                reason: "page cache and user memory (2, 4 and 8) are known to a domain's kernel \
                         only; without that of dom0, only zero pages (1) and the hypervisor's \
                         free memory (16) are excluded"
                    .into(),
            });
        }
        let dom0 = dom0.filter(|_| owners.dom0 && level.needs_struct_pages());
        let pages = match dom0 {
            Some(_) => Some(Dom0Pages::new(DomainFrames::of_dom0(host)?)),
            None => None,
        };
        let dom0 = match dom0 {
            Some(kernel) => Some(Box::new(Self::new(kernel, level)?)),
            None => None,
        };
        let excludes_free = level.excludes_free();
        Ok(Self {
            level,
            owners: Some(OwnerFilter::new(host, pages, owners, excludes_free)),
            dom0,
            ..Self::all_pages(source)
        })
    }

    /// The memory of dom0 of a Xen host, if pages of it are excluded by its kernel.
    pub fn dom0(&self) -> Option<&'a Kernel<'s>> {
        self.dom0.as_ref()?.kernel
    }

    /// Filters the section of dom0 at `first`. This is done for all sections of dom0's memory
    /// before the host's memory is filtered; page frames of sections that are left out are kept.
    ///
    /// # Errors
    /// As [`Self::scan_section`].
    pub fn scan_dom0_section(
        &self,
        reader: &mut dyn PageReader,
        first: PageFrame,
    ) -> Result<SectionResult, KernelError> {
        let pages = self.owners.as_ref().and_then(OwnerFilter::dom0);
        let Some((filter, pages)) = self.dom0.as_ref().zip(pages) else {
            return Ok(SectionResult::default());
        };
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut kept = Bitmap::new(SECTION_FRAMES as usize);
        let result = filter.scan_section(reader, first, &mut ram, &mut kept)?;
        pages.set(first, &kept);
        Ok(result)
    }

    /// Classifies every struct page individually instead of 64 at a time. The result is the
    /// same; this exists to verify that and to measure the difference.
    pub fn exact_only(&mut self) {
        self.blocks = None;
        if let Some(dom0) = &mut self.dom0 {
            dom0.exact_only();
        }
    }

    /// Excludes what lies behind the last struct page, such as video memory in QEMU's dumps, as
    /// makedumpfile does in kdump-compressed files. Where struct pages cannot be found, nothing
    /// is excluded; that is an error only at levels that need them.
    pub fn end_at_mem_map(&mut self) -> Result<(), KernelError> {
        let Some(kernel) = self.kernel else {
            return Ok(());
        };
        let found = match &self.struct_pages {
            Some((map, _)) => map.end_frame(kernel),
            None => MemMap::find(kernel).and_then(|map| map.end_frame(kernel)),
        };
        match found {
            Ok(found) => self.end = self.end.min(found),
            Err(error) if self.level.needs_struct_pages() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// The page frame after the last one that may be kept.
    pub fn end_frame(&self) -> PageFrame {
        self.end
    }

    /// The reason why poisoned pages cannot be recognised, if so.
    pub fn blind(&self) -> Option<&KernelError> {
        self.blind.as_ref()
    }

    /// Filters the section that starts at `first`. Sets `ram` for the frames that are RAM, and
    /// `kept` for those to dump.
    pub fn scan_section(
        &self,
        reader: &mut dyn PageReader,
        first: PageFrame,
        ram: &mut Bitmap,
        kept: &mut Bitmap,
    ) -> Result<SectionResult, KernelError> {
        self.source.ram(first, ram)?;
        let end = self.end.0.saturating_sub(first.0).min(SECTION_FRAMES) as usize;
        let device = ram.clear_range(end, SECTION_FRAMES as usize);
        self.source.present(first, kept)?;
        kept.and(ram);
        let mut result = SectionResult {
            ram: ram.count() + device,
            ..Default::default()
        };
        result.excluded.device = device;
        result.excluded.absent = ram.count() - kept.count();
        if let Some(owners) = &self.owners {
            owners.scan(reader, first, kept, &mut result)?;
        }
        let rules = self.rules_of(first);
        if self.described_end.is_some_and(|end| first >= end) {
            result.undescribed = ram.count();
        } else {
            let by_rule = rules.as_ref().map(|rules| &rules.keep);
            self.scan_guarded(reader, first, by_rule, kept, &mut result)?;
        }
        if let Some(rules) = rules {
            let before = kept.count();
            kept.and_not(&rules.drop);
            result.excluded.rules = before - kept.count();
            let mut blank = rules.blank;
            blank.and(kept);
            result.blanked_by_rules = blank.count();
        }
        result.excluded.struct_pages = self.exclude_vacant(first, kept);
        result.kept = kept.count();
        Ok(result)
    }

    /// Excludes pages of the section at `first` by their classes, but for guarded ones and those
    /// that a rule keeps.
    fn scan_guarded(
        &self,
        reader: &mut dyn PageReader,
        first: PageFrame,
        by_rule: Option<&Bitmap>,
        kept: &mut Bitmap,
        result: &mut SectionResult,
    ) -> Result<(), KernelError> {
        let mut guarded = self.guarded.within(first, SECTION_FRAMES).peekable();
        if guarded.peek().is_none() && by_rule.is_none() {
            return self.scan_classes(reader, first, self.wanted, kept, result);
        }
        let (all, before) = (kept.clone(), result.clone());
        self.scan_classes(reader, first, self.wanted, kept, result)?;
        let mut lost = by_rule.map_or_else(|| Bitmap::new(kept.len()), Clone::clone);
        for (start, end, _) in guarded {
            lost.set_range(start, end);
        }
        lost.and(&all);
        lost.and_not(kept);
        if lost.count() == 0 {
            return Ok(());
        }
        // Broken memory must not be read, whatever it is used for.
        let none = DumpLevel::default().wanted();
        self.scan_classes(
            reader,
            first,
            none,
            &mut lost,
            &mut SectionResult::default(),
        )?;
        // Again without them, so that the counts are of what is excluded.
        kept.clone_from(&all);
        kept.and_not(&lost);
        *result = before;
        self.scan_classes(reader, first, self.wanted, kept, result)?;
        kept.or(&lost);
        for (start, end, used_for) in self.guarded.within(first, SECTION_FRAMES) {
            *result.guarded.of(used_for) += lost.clear_range(start, end);
        }
        result.kept_by_rules = lost.count();
        Ok(())
    }

    /// Excludes pages of the section at `first` by their classes.
    fn scan_classes(
        &self,
        reader: &mut dyn PageReader,
        first: PageFrame,
        wanted: ExcludedClasses,
        kept: &mut Bitmap,
        result: &mut SectionResult,
    ) -> Result<(), KernelError> {
        let (Some(kernel), Some((map, layout))) = (self.kernel, &self.struct_pages) else {
            return Ok(());
        };
        let mut scan = Scan {
            kernel,
            wanted,
            blocks: self.blocks.as_ref().filter(|_| wanted == self.wanted),
            map,
            layout,
            frames: PageFrameRange::new(first.0, first.0 + SECTION_FRAMES),
            kept,
            result: std::mem::take(result),
            window: Window::default(),
        };
        scan.sections(reader)?;
        *result = scan.result;
        Ok(())
    }
}
