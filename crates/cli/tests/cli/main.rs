//! Tests of the program as a user runs it. All are one test binary: each further binary would be
//! linked with the whole program's libraries once more.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![cfg_attr(
    not(feature = "default"),
    allow(dead_code, reason = "tests of absent features use some helpers alone")
)]

mod common;
mod machines;
mod mounted;
mod peer;
mod save;
mod segments;
mod stripe;

mod architectures;
mod arm64;
mod bad_elf;
mod bad_kdump;
mod bad_pages;
mod bad_sectors;
#[cfg(feature = "bench")]
mod bench_dump;
mod bit_fields;
#[cfg(all(feature = "bench", feature = "generate"))]
mod command_line;
#[cfg(feature = "default")]
mod confined;
mod cpu_domains;
#[cfg(feature = "hotplug")]
mod cpu_hotplug;
#[cfg(all(feature = "hotplug", feature = "mount"))]
mod cpu_mount;
mod cpu_simulate;
mod damaged_vmcoreinfo;
mod diff;
mod dmesg;
mod dump_attempts;
mod encrypted;
mod erase;
mod faults;
#[cfg(all(feature = "images", feature = "inspect"))]
mod images;
mod info;
mod makedumpfile_dumps;
mod makedumpfile_options;
mod makedumpfile_split;
#[cfg(all(feature = "bench", feature = "memory"))]
mod memory_bench;
#[cfg(feature = "memory")]
mod memory_kill;
#[cfg(feature = "memory")]
mod memory_killed;
mod memory_limit;
#[cfg(feature = "memory")]
mod memory_run;
#[cfg(feature = "memory")]
mod memory_segments;
mod mount;
mod names;
#[cfg(feature = "default")]
mod note_warnings;
#[cfg(feature = "plan")]
mod plan;
mod read;
mod report;
mod report_first;
mod round_trip;
#[cfg(feature = "inspect")]
mod rules;
mod running_kernel;
mod save_device;
mod save_encrypted;
mod save_encrypted_device;
mod save_files;
mod save_killed;
mod save_report;
#[cfg(feature = "retention")]
mod save_retention;
mod save_shared;
mod save_stripes;
mod save_vmdump;
mod savecore_live;
#[cfg(feature = "plan")]
mod setup;
mod split;
mod stripes;
mod terminal;
mod timeout;
#[cfg(feature = "triage")]
mod triage;
mod verify_against;
mod vmdump;
mod worst_moments;
mod xen;
mod xen_dom0;
mod xen_syms;
