//! Memory of a program, by its mappings.

use std::ops::ControlFlow;

use rustix::io::Errno;

use crate::mapping;
use crate::operation::Access;
use crate::region::Region;

/// Returns the parts of a region, with the access that makes the pages of each so that no later
/// touch waits: private writable memory becomes the process's own. Neighbours that are alike
/// form one part.
///
/// Errors: ENOMEM if a part of the region is not mapped, and those of reading the list.
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
