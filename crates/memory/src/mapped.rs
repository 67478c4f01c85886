//! Parts of this process's memory, by its mappings.

use std::ops::ControlFlow;

use rustix::io::Errno;

use crate::mapping;
use crate::operation::Access;
use crate::region::Region;

/// Returns the parts of a region, each with the access that populates it so that no later
/// access faults: private writable memory becomes the process's own. Adjacent parts with the
/// same access are merged.
///
/// Errors: ENOMEM if a part of the region is not mapped, and the errors of reading the list of
/// mappings.
pub fn parts(region: Region) -> Result<Vec<(Region, Access)>, Errno> {
    let mut parts: Vec<(Region, Access)> = Vec::new();
    let mut covered = region.start();
    mapping::for_each(region, |mapping| {
        let part = mapping.region.intersection(region);
        if part.start() > covered {
            return ControlFlow::Break(());
        }
        covered = part.end();
        let access = Access::of(&mapping);
        match parts.last_mut().filter(|(_, last)| *last == access) {
            Some((run, _)) => *run = Region::between(run.start(), part.end()),
            None => parts.push((part, access)),
        }
        ControlFlow::Continue(())
    })?;
    match covered >= region.end() {
        true => Ok(parts),
        false => Err(Errno::NOMEM),
    }
}
