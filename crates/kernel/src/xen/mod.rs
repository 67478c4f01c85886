//! Dumps of Xen hosts: the memory of a machine whose page frames belong to the hypervisor, to
//! dom0 and to other domains.
//!
//! /proc/vmcore of a crashed Xen host has machine memory, and notes of the hypervisor
//! ([`bigiron_format::elf::xen`]). The hypervisor's page tables lead to everything else: its
//! direct map says which entry of the frame table describes a page frame, and an entry says who
//! owns the frame.
//!
//! - [`host`]: recognises a Xen host, and finds what follows.
//! - `space`: the hypervisor's addresses.
//! - `direct_map`: the order of page frames in the frame table, which skips holes in memory.
//! - `count_info`: the states of a page frame, in both layouts.
//! - `domains`: the list of domains.
//! - `domain_states`: what each of them does, and its handle.
//! - `frame_table`: its entries.
//! - `symbols`: the hypervisor's own table of symbols.
//! - `linked`: the hypervisor's VMCOREINFO out of its linked image.
//! - `variables`: its console, its command line, its count of free pages.
//! - `cpus`: the registers of physical CPUs.
//! - `stack`: their stacks.
//! - `vcpus`: the virtual CPUs of paravirtual domains.
//! - `owner`: owners, and the choice of those whose page frames a dump keeps.
//! - `p2m`: dom0's table of its page frames.
//! - `type_info`: which of its pages are page tables.
//! - [`domain_frames`]: its page frames in the machine, and back.
//! - `domain_source`: its memory as that of a machine of its own.
//! - `dom0`: finds and opens it.
//! - [`owners`]: the owner of each page frame.

mod count_info;
mod cpus;
mod direct_map;
mod dom0;
pub mod domain_frames;
mod domain_source;
mod domain_states;
mod domains;
mod frame_table;
pub mod host;
#[cfg(feature = "dwarf")]
mod linked;
mod owner;
pub mod owners;
mod p2m;
mod space;
#[cfg(feature = "stacks")]
mod stack;
mod symbols;
mod type_info;
mod variables;
mod vcpus;

pub use cpus::{CONTROL_REGISTERS, Cpu};
pub use dom0::open_dom0;
pub use domain_frames::DomainFrames;
pub use domain_states::{Activity, DomainState, Handle, Phase, shutdown_reason};
pub use domains::Domain;
pub use host::{Given, Host, Version, is_host, version};
#[cfg(feature = "dwarf")]
pub use linked::linked_vmcoreinfo;
pub use owner::{Census, Owner, Owners};
#[cfg(feature = "stacks")]
pub use stack::{Call, Stack};
pub use vcpus::Vcpu;
