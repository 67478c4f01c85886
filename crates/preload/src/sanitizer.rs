//! Detects compilers' sanitizers by the functions that they add to programs.

use std::arch::asm;

/// Returns the address of a function of the program or its libraries; 0 if it does not exist.
///
/// dlsym(3) is not usable: it allocates an error message with the program's `malloc`, before
/// the program itself calls it.
macro_rules! address_of {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: reads the entry filled in by the loader: the address, or 0 because the symbol
        // is weak.
        unsafe {
            asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(readonly, nostack, preserves_flags),
            );
        }
        address
    }};
}

/// True if the program runs under ThreadSanitizer, which mistakes the start of a helper for a
/// fork of the whole process, and waits forever.
pub(crate) fn watches_races() -> bool {
    address_of!("__tsan_init") != 0
}

/// True if a sanitizer is present, which examines memory after all handlers have run.
pub(crate) fn watches_memory() -> bool {
    address_of!("__sanitizer_print_stack_trace") != 0
}
