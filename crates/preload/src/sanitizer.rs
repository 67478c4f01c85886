//! Detects compilers' sanitizers by the functions that they add to programs.

use std::arch::global_asm;

/// Defines a variable that the loader sets to the address of a function of the program or its
/// libraries; 0 if it does not exist, because the symbol is weak.
///
/// dlsym(3) is not usable: it allocates an error message with the program's `malloc`, before
/// the program itself calls it.
macro_rules! address_of {
    ($function:literal, $variable:literal) => {
        global_asm!(
            ".pushsection .data.rel.ro, \"aw\"",
            ".balign 8",
            concat!(".weak ", $function),
            concat!(".globl ", $variable),
            concat!(".hidden ", $variable),
            concat!($variable, ":"),
            concat!(".quad ", $function),
            ".popsection",
        );
    };
}

address_of!("__tsan_init", "bigiron_tsan_init");
address_of!(
    "__sanitizer_print_stack_trace",
    "bigiron_sanitizer_print_stack_trace"
);

unsafe extern "C" {
    static bigiron_tsan_init: usize;
    static bigiron_sanitizer_print_stack_trace: usize;
}

/// True if the program runs under ThreadSanitizer, which mistakes the start of a helper for a
/// fork of the whole process, and waits forever.
pub(crate) fn watches_races() -> bool {
    // SAFETY: defined above, and set by the loader before any code of this library runs.
    unsafe { bigiron_tsan_init != 0 }
}

/// True if a sanitizer is present, which examines memory after all handlers have run.
pub(crate) fn watches_memory() -> bool {
    // SAFETY: as above.
    unsafe { bigiron_sanitizer_print_stack_trace != 0 }
}
