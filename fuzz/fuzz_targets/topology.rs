//! Arbitrary words as a machine: a small accepted machine gets the domains of both kernels, and
//! each CPU is in all its own domains.
#![no_main]

use bigiron_cpu::build::{Rules, build};
use bigiron_cpu::topology::Topology;
use libfuzzer_sys::fuzz_target;

/// The time to build is quadratic in the number of CPUs.
const MAX_CPUS: usize = 64;

fuzz_target!(|text: &str| {
    // Four digits only make slow machines.
    let digits = text.split(|character: char| !character.is_ascii_digit());
    if digits.into_iter().any(|number| number.len() > 3) {
        return;
    }
    let Ok(machine) = Topology::from_text(text) else {
        return;
    };
    let count = machine.cpu_count();
    if count > MAX_CPUS {
        return;
    }
    let online = (0..count as u32).collect();
    for rules in [Rules::LINUX_6_1, Rules::LINUX_6_12] {
        let chains = build(&machine, &online, &rules);
        assert_eq!(chains.len(), count);
        for (cpu, domain) in (0..)
            .zip(&chains)
            .flat_map(|(cpu, chain)| chain.iter().map(move |domain| (cpu, domain)))
        {
            assert_eq!(domain.cpu, cpu);
            assert!(domain.span.as_ref().is_some_and(|span| span.contains(cpu)));
        }
    }
});
