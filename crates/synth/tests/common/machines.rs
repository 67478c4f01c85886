//! Machines of all architectures.

use bigiron_synth::{presets, random_machine_on};

/// The words of an `arch` line, and the first kernel that has them.
pub const ARCHITECTURES: [(&str, &str); 24] = [
    ("x86_64", "4.19"),
    ("arm64", "4.19"),
    ("arm64 bits=39", "4.19"),
    ("arm64 bits=52", "6.9"),
    ("arm64 bits=52 hardware_bits=48", "6.9"),
    ("arm64 pages=16k", "4.19"),
    ("arm64 pages=16k bits=36", "4.19"),
    ("arm64 pages=16k bits=48", "4.19"),
    ("arm64 pages=16k bits=52", "6.9"),
    ("arm64 pages=16k bits=52 hardware_bits=47", "6.9"),
    ("arm64 pages=64k", "4.19"),
    ("arm64 pages=64k bits=42", "4.19"),
    ("arm64 pages=64k bits=52", "5.4"),
    ("arm64 pages=64k bits=52 hardware_bits=48", "5.4"),
    ("s390x", "4.19"),
    ("ppc64le", "4.19"),
    ("ppc64le pages=4k", "4.19"),
    ("ppc64le mmu=hash", "4.19"),
    ("ppc64le pages=4k mmu=hash", "4.19"),
    ("ppc64", "4.19"),
    ("riscv64 bits=39", "6.1"),
    ("riscv64", "6.1"),
    ("riscv64 bits=57", "6.1"),
    ("loongarch64", "6.1"),
];

/// Returns texts of machines with their names: for each architecture every `step`th kernel that
/// it has, starting at another one for each architecture, with one seed.
pub fn some_machines(step: usize, seed: u64) -> Vec<(String, String)> {
    let kernels = presets();
    let mut machines = Vec::new();
    for (index, (arch, first)) in ARCHITECTURES.iter().enumerate() {
        let first = kernels.iter().position(|kernel| kernel == first);
        let kernels = &kernels[first.expect("a kernel")..];
        for kernel in kernels
            .iter()
            .skip(index % step.min(kernels.len()))
            .step_by(step)
        {
            let name = format!("{arch}, {kernel}, seed {seed}");
            machines.push((name, random_machine_on(seed, arch, kernel)));
        }
    }
    machines
}
