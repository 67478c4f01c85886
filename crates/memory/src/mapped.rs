//! Memory of a program, by what is mapped there.

use std::ops::ControlFlow;

use rustix::io::Errno;

use crate::mapping;
use crate::operation::Access;
use crate::region::Region;

/// The parts of a region, and how the pages of each are made so that no later touch
/// waits: private memory that may be written becomes the process's own. Neighbours that are alike
/// are one part.
///
/// Errors: ENOMEM where nothing is mapped in a part of it, and those of reading the list.
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
