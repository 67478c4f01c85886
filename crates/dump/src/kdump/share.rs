//! Division of the kept pages among the parts of a split dump.

use std::ops::Range;

use bigiron_kernel::SECTION_FRAMES;

use super::batch::BATCH_FRAMES;
use crate::error::DumpError;
use crate::kept_pages::KeptPages;
use crate::plan::Plan;

/// Batches of a section.
pub(super) const BATCHES_PER_SECTION: u64 = SECTION_FRAMES / BATCH_FRAMES;

/// The pages of one part.
pub struct Share {
    /// Indexes of its batches among all batches of the dump.
    pub(super) batches: Range<u64>,
    /// Kept pages before them.
    pub(super) first_page: u64,
}

impl Share {
    /// Returns the first page frame; `end` if there is none.
    pub(super) fn first_frame(&self, plan: &Plan, end: u64) -> u64 {
        let batch = self.batches.start;
        let section = (batch / BATCHES_PER_SECTION) as usize;
        if section >= plan.sections.len() {
            return end;
        }
        let first = plan.sections.at(section).first.0;
        (first + batch % BATCHES_PER_SECTION * BATCH_FRAMES).min(end)
    }
}

/// Divides the kept pages into `count` shares of about the same size, which begin at multiples of
/// `granule` page frames.
pub(super) fn divide(
    kept: &KeptPages,
    count: usize,
    granule: u64,
) -> Result<Vec<Share>, DumpError> {
    let granule = granule
        .next_multiple_of(BATCH_FRAMES)
        .clamp(BATCH_FRAMES, SECTION_FRAMES) as usize;
    let plan = &kept.plan;
    let mut cursor = kept.cursor();
    let batches = plan.sections.len() as u64 * BATCHES_PER_SECTION;
    let mut shares = Vec::with_capacity(count);
    let (mut start, mut first_page) = (0, 0);
    for number in 1..=count as u64 {
        let wanted = u64::try_from(u128::from(plan.kept) * u128::from(number) / count as u128);
        let wanted = wanted.unwrap_or(plan.kept);
        // The last share has everything that is left.
        let index = match number == count as u64 {
            true => plan.sections.len(),
            false => first_section_with(plan, wanted),
        };
        let (end, pages) = if index == plan.sections.len() {
            (batches, plan.kept)
        } else {
            let section = plan.sections.at(index);
            let bits = cursor.load(index)?;
            let pages = |bit: usize| section.kept_before + bits.count_before(bit);
            let bit = (0..=SECTION_FRAMES as usize)
                .step_by(granule)
                .find(|bit| pages(*bit) >= wanted)
                .unwrap_or(SECTION_FRAMES as usize);
            let batch = index as u64 * BATCHES_PER_SECTION + bit as u64 / BATCH_FRAMES;
            (batch, pages(bit))
        };
        shares.push(Share {
            batches: start..end,
            first_page,
        });
        (start, first_page) = (end, pages);
    }
    Ok(shares)
}

/// Returns the index of the first section up to which `wanted` pages are kept, or the number of
/// sections.
fn first_section_with(plan: &Plan, wanted: u64) -> usize {
    let (mut low, mut high) = (0, plan.sections.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let section = plan.sections.at(middle);
        if section.kept_before + section.kept < wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
