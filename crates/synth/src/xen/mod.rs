//! Dumps of Xen hosts (docs/formats/xen.md): the machine's memory with the hypervisor, its page
//! tables, frame table and domains.
//!
//! ```
//! use bigiron_synth::{XenHost, XenOwner};
//!
//! let host = XenHost::from_text(
//!     "xen 4.17 pdx=mask            # one `xen` line
//!      ram 0x0-0x9f 0x100-0xfff 0x100000-0x100fff
//!      dom0 0x800 n=512             # page frames, by owner
//!      domain 1 0x100000 n=256 ; domain 7 0x100800 n=16
//!      free 0xa00 n=512 ; free 0xc00 n=64 scrub",
//! )?;
//! assert_eq!(host.owner(0x100000), XenOwner::Domain(1));
//! assert_eq!(&host.elf()[..4], b"\x7fELF");
//! # Ok::<(), bigiron_synth::SynthError>(())
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `xen MAJOR.MINOR [KEY=VALUE …]` | the version; the keys are below |
//! | `ram FIRST-LAST …` | page frames, both ends included |
//! | `dom0 FRAME n=COUNT` | allocated to dom0 |
//! | `domain ID FRAME n=COUNT [paused]` | allocated to a domain, which runs; which is paused, or has `crashed` |
//! | `heap FRAME n=COUNT` | the hypervisor's heap |
//! | `free FRAME n=COUNT [scrub]` | free; not yet scrubbed |
//! | `offlined FRAME n=COUNT`, `broken FRAME n=COUNT` | taken out of use; broken memory |
//! | `stray FRAME n=COUNT` | allocated to a domain that is not in the list |
//! | `io FRAME n=COUNT` | the hypervisor's own domain dom_io |
//!
//! All other RAM is the hypervisor's, which has 4 MiB from `image` on for its image and tables
//! and the RAM behind for the frame table.
//!
//! | key | value (default first) |
//! |---|---|
//! | `count_info` | by the version; `old`, `new` |
//! | `pdx` | `none`; `mask`, `offset`: how holes in memory are left out of the frame table |
//! | `image` | `0x400`; the first page frame of the hypervisor's image, a multiple of 512 |
//! | `bigmem` | `no`, `yes`: built for more than 16 TiB |
//! | `frame_table` | `pointer`; `fixed`: VMCOREINFO has no pointer to it |
//! | `vmcoreinfo` | `note`, `none` |
//! | `avail_skew` | `0`; added to the hypervisor's own count of free pages |
//! | `symbols` | `yes`, `no`: a table of symbols in the image |
//! | `p2m` | `yes`, `no`: dom0 has no table of its frames, as a PVH domain |
//! | `cpus` | `1` |
//! | `fill` | `pattern`: pages without contents of their own have their number; `zero` |

mod build;
mod cpus;
mod dom0;
mod elf;
mod facts;
mod frame_table;
mod memory;
mod spec;
mod symbols;

pub use spec::{XenHost, XenOwner};
