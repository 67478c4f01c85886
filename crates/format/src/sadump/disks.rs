//! The disks of a dump: one, or a set whose pages go on from one disk to the next.

use super::{BLOCK_SIZE, DumpHeader, PartitionHeader};
use crate::bytes::ReadAt;
use crate::error::FormatError;

/// One disk, or a file with a copy of it.
pub struct Disk {
    /// Its contents.
    pub file: Box<dyn ReadAt>,
    /// Its header.
    pub partition: PartitionHeader,
}

/// Pages of a dump that follow each other on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Index of the disk.
    pub disk: usize,
    /// Offset of the first page on the disk.
    pub offset: u64,
    /// Number of pages.
    pub pages: u64,
}

/// All disks of a dump, in order.
pub struct Disks {
    disks: Vec<Disk>,
    /// The dump header.
    pub header: DumpHeader,
    /// The pages of each disk, with the index of its first one.
    extents: Vec<(u64, Extent)>,
}

/// Why disks are not those of one dump.
#[derive(Debug)]
pub enum NotOneDump {
    /// The headers of a disk, by its index, are damaged.
    Damaged(usize, FormatError),
    /// A disk, by its index, is of another dump, or has another place in the set.
    Foreign(usize, String),
}

impl Disks {
    /// Joins disks, given in any order.
    ///
    /// # Errors
    ///
    /// They are not all disks of one dump, or the headers of the first one are damaged. The index
    /// is that in the order of the set.
    pub fn new(mut disks: Vec<Disk>) -> Result<Self, NotOneDump> {
        disks.sort_by_key(|disk| disk.partition.number);
        let Some(first) = disks.first() else {
            return Err(NotOneDump::Foreign(0, "no disk is given".into()));
        };
        let partition = first.partition;
        let is_set = partition.offset == 0 && partition.number != 0;
        if is_set && partition.number != 1 {
            let number = partition.number;
            let reason = format!("is disk {number} of a set; give its first disk too");
            return Err(NotOneDump::Foreign(0, reason));
        }
        if !is_set && disks.len() > 1 {
            let reason = "is a dump on one partition; give it alone".to_owned();
            return Err(NotOneDump::Foreign(0, reason));
        }
        let header = DumpHeader::read(first.file.as_ref(), &partition);
        let header = header.map_err(|error| NotOneDump::Damaged(0, error))?;
        for (index, disk) in disks.iter().enumerate().skip(1) {
            let other = &disk.partition;
            let reason = if (other.system, other.disk_set) != (partition.system, partition.disk_set)
            {
                "is a disk of another set".to_owned()
            } else if other.number as usize != index + 1 {
                format!(
                    "is disk {} of the set; give disk {}",
                    other.number,
                    index + 1
                )
            } else if header.volumes.get(index - 1) != Some(&other.volume) {
                "is not the disk that the first disk of the set names".to_owned()
            } else {
                continue;
            };
            return Err(NotOneDump::Foreign(index, reason));
        }
        let mut extents = Vec::with_capacity(disks.len());
        let mut pages = 0;
        for (index, disk) in disks.iter().enumerate() {
            let offset = if index == 0 { header.data } else { BLOCK_SIZE };
            // A media backup and a single partition end with their last page.
            let used = if is_set {
                disk.partition.used
            } else {
                u64::MAX
            };
            let there = used.saturating_sub(offset) / BLOCK_SIZE;
            let extent = Extent {
                disk: index,
                offset,
                pages: there.min(u64::MAX / BLOCK_SIZE - pages),
            };
            extents.push((pages, extent));
            pages += extent.pages;
        }
        Ok(Self {
            disks,
            header,
            extents,
        })
    }

    /// The first disk, which has the headers.
    pub fn first(&self) -> &Disk {
        &self.disks[0]
    }

    /// The disks, in the order of the set.
    pub fn all(&self) -> &[Disk] {
        &self.disks
    }

    /// Number of disks of the set that are missing.
    pub fn missing(&self) -> usize {
        (self.header.volumes.len() + 1).saturating_sub(self.disks.len())
    }

    /// Locates page number `index` of the dump, and those behind it on the same disk. `None` if
    /// it is on no disk.
    pub fn locate(&self, index: u64) -> Option<Extent> {
        let behind = self.extents.partition_point(|(first, _)| *first <= index);
        let (first, extent) = self.extents.get(behind.checked_sub(1)?)?;
        let inside = index - first;
        (inside < extent.pages).then(|| Extent {
            disk: extent.disk,
            offset: extent.offset + inside * BLOCK_SIZE,
            pages: extent.pages - inside,
        })
    }

    /// Number of pages, from the first one on, that the files have.
    pub fn whole_pages(&self) -> u64 {
        let mut pages = 0;
        for (_, extent) in &self.extents {
            let size = self.disks[extent.disk].file.size();
            let there = size.saturating_sub(extent.offset) / BLOCK_SIZE;
            pages += there.min(extent.pages);
            if there < extent.pages {
                break;
            }
        }
        pages
    }
}
