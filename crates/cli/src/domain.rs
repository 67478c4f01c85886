//! dom0 of a Xen host as the machine that a command reads.

use std::sync::Arc;

use anyhow::Context;
use bigiron_kernel::xen::{Given, open_dom0};
use bigiron_kernel::{IoMethod, Source};

/// Returns the memory of domain `id` in `source`; `source` itself if the user chose none.
///
/// # Errors
/// The source is not of a Xen host, or the memory of this domain cannot be found in it.
pub fn enter(
    source: Source,
    id: Option<u16>,
    given: Given,
    io: IoMethod,
    cache_pages: usize,
) -> anyhow::Result<Source> {
    let Some(id) = id else {
        return Ok(source);
    };
    let name = source.path().display().to_string();
    anyhow::ensure!(
        id == 0,
        "{name}: --domain {id}: only dom0 (0) can be read by itself, since the notes of a host lead \
         to no table of another domain's page frames"
    );
    open_dom0(&Arc::new(source), given, io, cache_pages).context(name)
}
