//! Scheduling domains of the real vmcore in samples/, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod sample;

use bigiron_format::VirtAddr;
use bigiron_inspect::{InspectError, Program, SchedDomains};

use sample::{offset, sample, with_program};

/// The domain of CPU 0, and where in the file its member `parent` is.
fn first_domain(program: &Program) -> (VirtAddr, usize) {
    let queue = program.per_cpu("runqueues", 0).unwrap();
    let domain = program.pointer(queue, "rq", "sd").unwrap();
    let parent = program.member(domain, "sched_domain", "parent").unwrap();
    (domain, offset(program, parent))
}

#[test]
fn domains_agree_with_the_machine() {
    with_program(&sample(), |program| {
        let domains = SchedDomains::new(program).unwrap();
        assert_eq!(domains.cpus().unwrap(), [0, 1]);
        for cpu in [0, 1] {
            let found = domains.of(cpu).unwrap();
            let [domain] = &found[..] else {
                panic!("{found:?}");
            };
            assert_eq!((domain.cpu, domain.number), (cpu as u32, 0));
            assert_eq!(domain.name.as_deref(), Some("MC"));
            assert_eq!(domain.span.as_ref().unwrap().to_string(), "0-1");
            let tunables = domain.tunables.unwrap();
            assert_eq!((tunables.min_interval, tunables.max_interval), (2, 4));
            assert_eq!((tunables.busy_factor, tunables.imbalance_pct), (16, 117));
            let flags = domain.flags.as_ref().unwrap();
            let has = |flag: &str| flags.iter().any(|name| name == flag);
            assert!(has("SD_BALANCE_FORK") && has("SD_SHARE_PKG_RESOURCES"));
            assert!(!has("SD_NUMA"));
        }
        let behind = program.cpu_count().unwrap();
        assert!(domains.of(behind).is_err());
    });
}

#[test]
fn endless_chain_is_reported_as_damage() {
    let mut bytes = sample();
    let (domain, at) = with_program(&bytes, first_domain);
    assert_eq!(bytes[at..at + 8], [0; 8], "the only domain has no parent");
    bytes[at..at + 8].copy_from_slice(&domain.0.to_le_bytes());
    with_program(&bytes, |program| {
        let error = SchedDomains::new(program).unwrap().of(0).unwrap_err();
        assert!(matches!(error, InspectError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("CPU 0"), "{error}");
        assert!(SchedDomains::new(program).unwrap().of(1).is_ok());
    });
    bytes[at..at + 8].copy_from_slice(&0x10_u64.to_le_bytes());
    with_program(&bytes, |program| {
        let error = SchedDomains::new(program).unwrap().of(0).unwrap_err();
        assert!(matches!(error, InspectError::Kernel(_)), "{error}");
    });
}
