//! The sanitizers of compilers, which have functions in the programs that they are in.

use std::arch::asm;

/// Where a function of the program or of its libraries is, 0 where there is none.
///
/// Not by dlsym(3), which makes the text of an error by the program's `malloc`, before the program
/// itself calls it first.
macro_rules! address_of {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: reads what the loader has put there: the address, or 0, since the name is weak.
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

/// Whether the program is under ThreadSanitizer, which takes the start of a helper for a fork
/// of the whole process, and waits for ever.
pub(crate) fn watches_races() -> bool {
    address_of!("__tsan_init") != 0
}

/// Whether a sanitizer is there, which looks at memory when all handlers have run.
pub(crate) fn watches_memory() -> bool {
    address_of!("__sanitizer_print_stack_trace") != 0
}
