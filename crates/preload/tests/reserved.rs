//! Shared memory that is mapped over reserved addresses has the same contents as without the
//! library, and huge pages where the kernel has some.

mod common;

use std::process::Output;

use common::{Program, SMALL, run};

const ACCELERATED: [&str; 1] = ["madvise"];

fn policy(huge: &str) -> String {
    let policy = SMALL.replace("huge=never", &format!("huge={huge}"));
    format!("{policy},destroy=plain")
}

#[test]
fn memory_over_reserved_addresses() {
    if let Some(program) = Program::compile("reserved") {
        program.same(&[], &policy("never"), &ACCELERATED);
        program.same(&[], &policy("auto"), &ACCELERATED);
    }
}

#[test]
fn reserved_addresses_get_huge_pages() {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if setting.is_ok_and(|text| text.contains("[deny]")) {
        println!("skipped: shmem_enabled is deny");
        return;
    }
    if !is_at_least([6, 1]) {
        println!("skipped: MADV_COLLAPSE for shared memory requires Linux 6.1");
        return;
    }
    if let Some(program) = Program::compile("reserved") {
        let huge = |output: &Output| {
            let text = String::from_utf8_lossy(&output.stdout);
            let line = text.lines().find_map(|line| line.strip_prefix("huge: "));
            let kib: Option<u64> = line.and_then(|line| line.split(' ').next()?.parse().ok());
            kib.unwrap()
        };
        // The same result as the program's own MADV_COLLAPSE.
        if huge(&run(&mut program.plain(&["collapse"]))) == 0 {
            println!("skipped: the kernel has no free huge page");
            return;
        }
        let (output, trace) = program.traced(&["huge"], &policy("auto"));
        assert!(huge(&output) >= 2048, "{trace}");
    }
}

fn is_at_least(wanted: [u32; 2]) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    let found: [u32; 2] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
    found >= wanted
}
