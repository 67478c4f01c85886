//! Tests of the model against known sums, and against published measurements.

#![allow(clippy::unwrap_used, reason = "a test may fail so")]

use super::costs::{Costs, Kept};
use super::model::{Cost, FlushGrowth, Machine, Memory, Pass, WorkItem};
use super::outcome::{Bottleneck, Outcome, hours};
use super::simulate::simulate;
use super::{large, remap, solaris, windows};

const PIECES: u64 = 4000;

/// Returns a pass with 100 µs of reading, 700 of work, 200 of writing, and a million bytes per
/// piece.
fn pass(spread: f64) -> Pass {
    Pass {
        name: "copy",
        pieces: PIECES,
        piece: WorkItem {
            source: Cost::of(100e3),
            cpu: Cost::of(700e3),
            write: Cost::of(200e3),
            bytes: 1e6,
            flushes: 0.0,
        },
        spread,
    }
}

const ONE_HELPER: f64 = PIECES as f64 * 1e-3;
const BYTES: f64 = PIECES as f64 * 1e6;

fn run(machine: Machine) -> Outcome {
    simulate(&machine, &[pass(0.5)])
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    let error = found / expected - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{found} is not {expected}: {error:+.4}"
    );
}

#[test]
fn time_of_one_helper_is_the_sum_of_all_costs() {
    let outcome = run(Machine {
        start: 5e6,
        finish: 7e6,
        take: 1000.0,
        ..Machine::default()
    });
    assert_near(outcome.seconds, ONE_HELPER * 1.001 + 0.012, 1e-9);
    assert_near(outcome.time.cpu, ONE_HELPER * 0.7, 1e-9);
    assert_near(outcome.bytes, BYTES, 1e-9);
    assert_eq!(outcome.bottleneck(), Bottleneck::Cpu);
    let phases: f64 = outcome.phases.iter().map(|phase| phase.1).sum();
    assert_near(phases, outcome.seconds, 1e-9);
}

#[test]
fn helpers_without_shared_resources_divide_the_time() {
    for helpers in [2, 16, 64] {
        let outcome = run(Machine {
            helpers,
            ..Machine::default()
        });
        assert_near(outcome.seconds, ONE_HELPER / helpers as f64, 0.02);
    }
}

#[test]
fn slow_disk_limits_the_dump_to_its_bandwidth_and_two_disks_halve_the_time() {
    for disks in [1, 2] {
        let outcome = run(Machine {
            helpers: 32,
            disks,
            disk_rate: 100e6,
            ..Machine::default()
        });
        assert_near(outcome.seconds, BYTES / 100e6 / disks as f64, 0.02);
        assert_eq!(outcome.bottleneck(), Bottleneck::Disks);
        assert!(outcome.time.wait_disk > outcome.time.busy());
    }
}

#[test]
fn synchronous_writes_add_both_times() {
    let outcome = run(Machine {
        disk_rate: 1e9,
        synchronous: true,
        ..Machine::default()
    });
    assert_near(outcome.seconds, ONE_HELPER + BYTES / 1e9, 1e-6);
}

#[test]
fn lock_of_one_file_limits_many_helpers() {
    let machine = Machine {
        helpers: 64,
        one_file: true,
        ..Machine::default()
    };
    let outcome = run(machine.clone());
    assert_near(outcome.seconds, PIECES as f64 * 200e-6, 0.02);
    assert_eq!(outcome.bottleneck(), Bottleneck::Lock);
    let slower = run(Machine {
        hand_over: 50e3,
        ..machine
    });
    assert_near(slower.seconds, PIECES as f64 * 250e-6, 0.02);
}

#[test]
fn bus_limits_concurrent_readers() {
    let mut pass = pass(0.5);
    pass.piece.source = Cost::of(1e6);
    pass.piece.cpu = Cost::default();
    pass.piece.write = Cost::default();
    let machine = Machine {
        helpers: 64,
        bus_helpers: 8.0,
        ..Machine::default()
    };
    let outcome = simulate(&machine, &[pass]);
    assert_near(outcome.seconds, PIECES as f64 * 1e-3 / 8.0, 0.02);
    assert_eq!(outcome.bottleneck(), Bottleneck::Bus);
    assert!(outcome.time.wait_bus > 6.0 * outcome.time.source);
}

#[test]
fn slow_work_queue_limits_helpers() {
    let outcome = run(Machine {
        helpers: 64,
        take: 100e3,
        ..Machine::default()
    });
    assert_near(outcome.seconds, PIECES as f64 * 100e-6, 0.02);
    assert_eq!(outcome.bottleneck(), Bottleneck::Take);
}

#[test]
fn memory_limits_the_number_of_helpers() {
    let outcome = run(Machine {
        helpers: 64,
        memory: Some(Memory {
            budget: 44 << 20,
            shared: 4 << 20,
            per_helper: 5 << 20,
        }),
        ..Machine::default()
    });
    assert_eq!(outcome.helpers, 8);
    assert_near(outcome.seconds, ONE_HELPER / 8.0, 0.02);
}

#[test]
fn work_of_several_helpers_has_the_cost_of_several() {
    let mut pass = pass(0.0);
    pass.piece.cpu.beside = 1400e3;
    let outcome = simulate(
        &Machine {
            helpers: 2,
            ..Machine::default()
        },
        &[pass],
    );
    assert_near(outcome.seconds, PIECES as f64 * 1.7e-3 / 2.0, 0.001);
}

#[test]
fn same_seed_has_same_result_and_other_seed_a_similar_one() {
    let machine = |seed| Machine {
        helpers: 7,
        disk_rate: 3e9,
        one_file: true,
        seed,
        ..Machine::default()
    };
    let (one, same, other) = (run(machine(1)), run(machine(1)), run(machine(2)));
    assert_eq!(one, same);
    assert_ne!(one.seconds, other.seconds);
    assert_near(one.seconds, other.seconds, 0.02);
}

#[test]
fn merging_pieces_does_not_change_the_time() {
    let mut many = pass(0.5);
    many.pieces *= 1000;
    let machine = Machine {
        helpers: 48,
        one_file: true,
        hand_over: 1000.0,
        take: 1000.0,
        ..Machine::default()
    };
    let seconds = simulate(&machine, &[many]).seconds;
    assert_near(seconds, PIECES as f64 * 1000.0 * 201e-6, 0.02);
}

#[test]
fn dump_takes_the_sum_of_its_pages_costs() {
    let costs = Costs::stated();
    let codec = costs.codec("lzo").unwrap();
    let kept = Kept {
        frames: 10 << 15,
        pages: 200_000,
        zero: 0.2,
        equal: 0.1,
    };
    let outcome = simulate(&Machine::default(), &costs.passes(&kept, codec));
    let lzo = 0.9 * 6e3 + 0.1 * 2e3;
    let bytes = 140_000.0 * (0.9 * 1500.0 + 0.1 * 4096.0) + 200_000.0 * 24.0 + 10.0 * 8192.0;
    let pages = 200_000.0 * 700.0 + 40_000.0 * 100.0 + 160_000.0 * 300.0 + 20_000.0 * 1000.0;
    let expected = 10.0 * 600e3 + pages + 140_000.0 * lzo + bytes * 0.4;
    assert_near(outcome.seconds, expected / 1e9, 1e-6);
    assert_near(outcome.bytes, bytes, 1e-6);
}

#[test]
fn flush_costs_more_with_more_cpus() {
    assert_eq!(FlushGrowth::EveryCpu.factor(1), 0.0);
    assert_eq!(FlushGrowth::EveryCpu.factor(4), 3.0);
    assert_eq!(FlushGrowth::SlowestAnswer.factor(2), 1.0);
    assert_near(FlushGrowth::SlowestAnswer.factor(4), 11.0 / 6.0, 1e-12);
}

/// The x4450's time was 7 s, rounded: its error may be larger.
#[test]
fn solaris_is_predicted_from_the_time_before() {
    for (prediction, tolerance) in solaris::predictions().iter().zip([0.10, 0.10, 0.25, 0.10]) {
        let system = &prediction.system;
        assert_near(prediction.before.seconds, system.before, 0.01);
        assert_near(prediction.after.seconds, system.after, tolerance);
        // "we are still I/O limited"
        if system.name != "x4450" {
            assert_eq!(prediction.after.bottleneck(), Bottleneck::Disks);
            let needed = prediction.helpers_needed.unwrap();
            assert!(needed < system.cpus, "{}: {needed}", system.name);
        }
    }
}

#[test]
fn bzip2_in_one_thread_would_be_a_net_loss() {
    for system in &solaris::SYSTEMS {
        assert!(system.parallel(1).seconds > 1.5 * system.before);
    }
}

#[test]
fn four_cpus_on_vmcore_are_predicted_from_two() {
    let rows = remap::rows();
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert!(row.error().abs() < 0.05, "{row:?}");
    }
}

/// Threads that each map all memory lose a little more than the cost of mapping it.
#[test]
fn one_cost_of_a_flush_explains_windows_of_all_sizes() {
    assert_near(windows::flush(), 170e-6, 0.02);
    for row in windows::rows() {
        let tolerance = match (row.predicted, row.windows.maps_all) {
            (false, _) => 0.01,
            (true, false) => 0.10,
            (true, true) => 0.25,
        };
        assert!(row.error().abs() < tolerance, "{row:?}");
    }
}

#[test]
fn on_32_tb_many_helpers_are_disk_bound_and_few_are_cpu_bound() {
    let (costs, hardware) = (Costs::stated(), large::Hardware::default());
    let dump = |codec, helpers, place| {
        let codec = costs.codec(codec).unwrap();
        large::dump(&costs, &hardware, &large::kept(31), codec, helpers, place)
    };
    let few = dump("zstd:1", 16, (16, false));
    let many = dump("zstd:1", 512, (1, false));
    assert_eq!(few.bottleneck(), Bottleneck::Cpu);
    assert_eq!(many.bottleneck(), Bottleneck::Disks);
    assert_near(many.seconds, many.bytes / hardware.disk_rate, 0.05);
    let raw = dump("none", 16, (1, false));
    assert_near(raw.seconds, raw.bytes / hardware.disk_rate, 0.05);
    let one_file = dump("none", 512, (16, true));
    assert_eq!(one_file.bottleneck(), Bottleneck::Lock);
}

#[test]
fn best_codec_of_a_cell_is_at_least_as_fast_as_any() {
    let cells = large::table(&Costs::stated(), &large::Hardware::default());
    for best in cells.iter().filter(|cell| cell.codec.starts_with("best")) {
        let same = |cell: &&large::Cell| {
            (cell.level, cell.helpers, cell.disks, cell.one_file)
                == (best.level, best.helpers, best.disks, best.one_file)
        };
        let times: Vec<f64> = cells
            .iter()
            .filter(same)
            .map(|cell| cell.outcome.seconds)
            .collect();
        assert_eq!(times.len(), 5);
        assert!(times.iter().all(|time| best.outcome.seconds <= *time));
    }
}

#[test]
fn hours_are_formatted_as_h_mm_ss() {
    assert_eq!(hours(3599.6), "1:00:00");
    assert_eq!(hours(61.0), "0:01:01");
}
