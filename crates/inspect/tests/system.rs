//! The system and the block devices of the real vmcore in samples/.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod sample;

use bigiron_format::VirtAddr;
use bigiron_helpers::Stop;
use bigiron_inspect::{BlockQueue, Network, Program, System};

use sample::{offset, sample, with_program};

/// MQ_RQ_IN_FLIGHT.
const IN_FLIGHT: u32 = 1;

#[test]
fn system_of_the_sample_is_that_of_its_guest() {
    with_program(&sample(), |program| {
        let system = System::of(program);
        assert_eq!(system.missing, Vec::<String>::new());
        let command_line = system.command_line.unwrap();
        assert!(command_line.starts_with("console=ttyS0"), "{command_line}");
        assert!(system.machine.contains(&("vendor", "QEMU".into())));
        assert_eq!(system.hypervisor.as_deref(), Some("native"));
        // Debian's kernel, and modules out of it only.
        assert_eq!(system.taints.as_deref(), Some(""));
        assert!(system.tainting_modules.is_empty());
        // panic=-1 of the command line.
        let changed: Vec<_> = system
            .sysctls
            .iter()
            .map(|it| (it.name, it.value))
            .collect();
        assert_eq!(changed, [("kernel.panic", -1)]);
        assert!(system.since_last_message_nsec.unwrap() < system.uptime_nsec.unwrap());
        assert!(
            system
                .load
                .unwrap()
                .iter()
                .all(|load| (0.0..64.0).contains(load))
        );
    });
}

#[test]
fn network_of_the_sample_is_the_loopback_device() {
    with_program(&sample(), |program| {
        let network = Network::of(program).unwrap();
        assert_eq!(network.gaps, Vec::<String>::new());
        let [namespace] = network.namespaces.as_slice() else {
            panic!("{} namespaces", network.namespaces.len());
        };
        let [device] = namespace.devices.as_slice() else {
            panic!("{} devices", namespace.devices.len());
        };
        let found = (device.name.as_str(), device.index, device.mtu, device.up);
        assert_eq!(found, ("lo", 1, 65_536, false));
        assert_eq!(device.driver, None);
    });
}

/// The first request of the first disk.
fn first_request(program: &Program) -> VirtAddr {
    let queues = BlockQueue::all(program, &Stop::new()).unwrap();
    let disk = queues.iter().find(|queue| queue.disk == "vda").unwrap();
    let set = program
        .pointer(disk.queue, "request_queue", "tag_set")
        .unwrap();
    let tags = program.pointer(set, "blk_mq_tag_set", "tags").unwrap();
    let tags = VirtAddr(program.number(tags, 8).unwrap());
    let requests = program.pointer(tags, "blk_mq_tags", "static_rqs").unwrap();
    VirtAddr(program.number(requests, 8).unwrap())
}

#[test]
fn request_in_flight_is_found_with_its_device() {
    let mut bytes = sample();
    let (request, state) = with_program(&bytes, |program| {
        let queues = BlockQueue::all(program, &Stop::new()).unwrap();
        assert!(queues.iter().all(|queue| queue.in_flight.is_empty()));
        let request = first_request(program);
        let state = program.member(request, "request", "state").unwrap();
        (request, offset(program, state))
    });
    bytes[state..state + 4].copy_from_slice(&IN_FLIGHT.to_le_bytes());
    with_program(&bytes, |program| {
        let queues = BlockQueue::all(program, &Stop::new()).unwrap();
        let mut busy = queues.iter().filter(|queue| !queue.in_flight.is_empty());
        let queue = busy.next().unwrap();
        assert_eq!((queue.disk.as_str(), busy.next()), ("vda", None));
        let [found] = queue.in_flight.as_slice() else {
            panic!("{queue:?}");
        };
        assert_eq!(found.address, request);
        assert!(
            ["read", "write", "flush"].contains(&found.operation.as_str()),
            "{found:?}"
        );
        assert!(found.age_nsec.is_some());
    });
}

#[test]
fn search_for_requests_ends_when_the_time_is_over() {
    with_program(&sample(), |program| {
        let stop = Stop::new();
        stop.set();
        assert_eq!(BlockQueue::all(program, &stop).unwrap(), []);
    });
}
