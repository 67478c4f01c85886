//! Functions that replace return addresses.

use super::{End, StackReader};

const TRAMPOLINES: [(&str, &str); 4] = [
    ("return_to_handler", "the function graph tracer"),
    ("arch_rethook_trampoline", "a return probe"),
    ("__kretprobe_trampoline", "a return probe"),
    ("kretprobe_trampoline", "a return probe"),
];

/// Returns an error if the return address `ip` was replaced, so that the caller is not known.
pub fn check_trampoline(kernel: &dyn StackReader, ip: u64) -> Result<(), End> {
    let function = kernel.function_at(ip);
    let found = function.and_then(|function| {
        let mut all = TRAMPOLINES.iter();
        all.find(|(name, _)| *name == function.name)
    });
    match found {
        Some((_, who)) => Err(End::Cut(format!("{who} replaced the return address"))),
        None => Ok(()),
    }
}
