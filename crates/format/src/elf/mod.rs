//! ELF64 core files: /proc/vmcore, QEMU's memory dumps, `makedumpfile -E`.

pub mod dump_level;
pub mod erase_info;
pub mod header;
pub mod machine_frames;
pub mod note;
pub mod virtualbox;
pub mod write;
pub mod x86_64;
pub mod xen;

pub use header::{CoreHeaders, LoadSegment, MACHINE_X86_64, SIGNATURE};
pub use note::{NT_PRSTATUS, Note, Notes};
