//! Dumps that no kernel wrote: memory images, and those of firmware. The capture build, which reads
//! what its own kernel left, has none of them.

#[cfg(feature = "images")]
mod all;
#[cfg(not(feature = "images"))]
mod none;
#[cfg(feature = "images")]
mod ranges;
#[cfg(feature = "images")]
mod sadump;
#[cfg(feature = "images")]
mod vmware;
#[cfg(feature = "images")]
mod xen;

use super::MemorySource;
use super::elf::ElfSource;

#[cfg(feature = "images")]
pub(super) use all::{Image, Images, recognise, recognise_elf};
#[cfg(not(feature = "images"))]
pub(super) use none::{
    Image, Images, begins_image, open_raw, open_state, recognise, recognise_elf,
};
#[cfg(feature = "images")]
pub(super) use ranges::{begins_image, open_raw};
#[cfg(feature = "images")]
pub(super) use vmware::open_state;

#[cfg(not(feature = "images"))]
pub use none::with_file_beside;
#[cfg(feature = "images")]
pub use vmware::with_file_beside;

/// What the files of an image are.
#[cfg_attr(
    not(feature = "images"),
    expect(dead_code, reason = "no image is opened")
)]
pub(super) enum OpenedImage {
    /// Ranges of memory, as in an ELF core.
    Elf(Box<ElfSource>),
    /// A format of its own.
    Other(Box<dyn MemorySource>),
}
