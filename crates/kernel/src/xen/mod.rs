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
//! - `frame_table`: its entries.
//! - `symbols`: the hypervisor's own table of symbols.
//! - `owner`: owners, and the choice of those whose page frames a dump keeps.
//! - [`owners`]: the owner of each page frame.

mod count_info;
mod direct_map;
mod domains;
mod frame_table;
pub mod host;
mod owner;
pub mod owners;
mod space;
mod symbols;

pub use domains::Domain;
pub use host::{Given, Host, Version, is_host, version};
pub use owner::{Census, Owner, Owners};
