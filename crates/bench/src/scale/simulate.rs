//! Simulates a dump, event by event.
//!
//! A helper takes a piece, reads it over the shared bus, works on it, waits for the lock and
//! for room in the buffer, writes, and takes the next. Meanwhile the disks empty the buffer. At
//! the end of a pass all helpers synchronize.

use std::collections::VecDeque;

use super::events::{Events, Shared};
use super::model::{Machine, Pass, WorkItem};
use super::outcome::{HelperTime, Outcome, Utilisation};

/// Maximum number of pieces of a pass, unless there are many helpers. Adjacent pieces are
/// merged to stay below it.
const MAX_PIECES: u64 = 16 << 10;
/// Minimum number of pieces per helper, so that merging does not lengthen the end of a pass,
/// where some helpers have no work left.
const PIECES_PER_HELPER: u64 = 64;
const NANOSECONDS: f64 = 1e9;

enum Event {
    /// A helper has taken a piece of work.
    Taken(usize),
    /// A helper may be done with the bus. An old number marks an outdated event.
    Bus(u64),
    /// A helper has compressed its piece.
    Computed(usize),
    /// A helper's write() returns.
    Written(usize),
    /// A disk has written a piece.
    OnDisk(usize),
}

/// State of a helper.
#[derive(Clone, Copy, Default)]
struct Helper {
    piece: WorkItem,
    /// Start of the current wait.
    since: f64,
    /// True if it had to wait for the lock.
    contended: bool,
}

struct Run<'a> {
    machine: &'a Machine,
    now: f64,
    events: Events<Event>,
    helpers: Vec<Helper>,
    /// The current pass, with the remaining pieces as factors of the mean.
    pass: &'a Pass,
    weights: Vec<f64>,
    merged: f64,
    working: usize,
    take_free: f64,
    bus: Shared,
    bus_events: u64,
    locked: bool,
    lock_waiters: VecDeque<usize>,
    buffered: f64,
    room_waiters: VecDeque<usize>,
    /// Pieces queued for each disk: helper and size in bytes.
    disks: Vec<VecDeque<(usize, f64)>>,
    next_disk: usize,
    time: HelperTime,
    lock_time: f64,
    take_time: f64,
    disk_time: f64,
    bytes: f64,
}

/// Simulates the dump that `passes` make on `machine`.
pub fn simulate(machine: &Machine, passes: &[Pass]) -> Outcome {
    let count = machine.helpers_that_fit();
    let nothing = Pass {
        name: "",
        pieces: 0,
        piece: WorkItem::default(),
        spread: 0.0,
    };
    let mut run = Run {
        machine,
        now: machine.start,
        events: Events::default(),
        helpers: vec![Helper::default(); count],
        pass: &nothing,
        weights: Vec::new(),
        merged: 1.0,
        working: 0,
        take_free: 0.0,
        bus: Shared::new(machine.bus_helpers),
        bus_events: 0,
        locked: false,
        lock_waiters: VecDeque::new(),
        buffered: 0.0,
        room_waiters: VecDeque::new(),
        disks: vec![VecDeque::new(); machine.disks.max(1)],
        next_disk: 0,
        time: HelperTime::default(),
        lock_time: 0.0,
        take_time: 0.0,
        disk_time: 0.0,
        bytes: 0.0,
    };
    let mut phases = vec![("start", machine.start / NANOSECONDS)];
    for (number, pass) in passes.iter().enumerate() {
        let begin = run.now;
        run.pass(pass, number as u64);
        phases.push((pass.name, (run.now - begin) / NANOSECONDS));
    }
    let begin = run.now;
    while let Some((time, event)) = run.events.next() {
        run.now = time;
        run.happen(event);
    }
    let end = run.now + machine.finish;
    phases.push(("finish", (end - begin) / NANOSECONDS));
    run.outcome(end.max(1.0), phases)
}

impl<'a> Run<'a> {
    /// Runs one pass until the last helper has no more work.
    fn pass(&mut self, pass: &'a Pass, number: u64) {
        self.pass = pass;
        let count = self.helpers.len();
        let most = MAX_PIECES.max(PIECES_PER_HELPER * count as u64);
        let pieces = pass.pieces.min(most);
        self.merged = pass.pieces as f64 / pieces.max(1) as f64;
        self.weights = weights(pieces, pass.spread, self.machine.seed ^ number << 32);
        self.working = count;
        for helper in 0..count {
            self.take(helper);
        }
        while self.working > 0 {
            let Some((time, event)) = self.events.next() else {
                return;
            };
            self.now = time;
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Taken(helper) => self.read(helper),
            Event::Bus(number) if number == self.bus_events => self.compute(),
            Event::Bus(_) => {}
            Event::Computed(helper) => self.lock(helper),
            Event::Written(helper) => self.written(helper),
            Event::OnDisk(disk) => self.on_disk(disk),
        }
    }

    fn take(&mut self, helper: usize) {
        let Some(weight) = self.weights.pop() else {
            self.working -= 1;
            return;
        };
        let scale = weight * self.merged;
        let mean = &self.pass.piece;
        self.helpers[helper].piece = WorkItem {
            source: mean.source.times(scale),
            cpu: mean.cpu.times(scale),
            write: mean.write.times(scale),
            bytes: mean.bytes * scale,
            flushes: mean.flushes * scale,
        };
        let service = self.machine.take * self.merged;
        self.take_free = self.take_free.max(self.now) + service;
        self.take_time += service;
        self.time.wait_take += self.take_free - self.now;
        self.events.add(self.take_free, Event::Taken(helper));
    }

    fn read(&mut self, helper: usize) {
        let work = self.helpers[helper].piece.source.at(self.helpers.len());
        self.helpers[helper].since = self.now;
        self.bus.begin(self.now, helper, work);
        self.watch_bus();
    }

    fn watch_bus(&mut self) {
        self.bus_events += 1;
        if let Some(time) = self.bus.next_end() {
            self.events.add(time, Event::Bus(self.bus_events));
        }
    }

    fn compute(&mut self) {
        let Some(helper) = self.bus.end(self.now) else {
            return;
        };
        self.watch_bus();
        let count = self.helpers.len();
        let state = &self.helpers[helper];
        let source = state.piece.source.at(count);
        self.time.source += source;
        self.time.wait_bus += (self.now - state.since - source).max(0.0);
        let cpu = state.piece.cpu.at(count);
        let flush = self.machine.flush.map_or(0.0, |flush| {
            state.piece.flushes * flush.nanoseconds * flush.growth.factor(count)
        });
        self.time.cpu += cpu;
        self.time.flush += flush;
        self.events
            .add(self.now + cpu + flush, Event::Computed(helper));
    }

    fn lock(&mut self, helper: usize) {
        self.helpers[helper].since = self.now;
        if self.machine.one_file && self.locked {
            self.helpers[helper].contended = true;
            self.lock_waiters.push_back(helper);
        } else {
            self.helpers[helper].contended = false;
            self.locked = true;
            self.ask_for_room(helper);
        }
    }

    fn ask_for_room(&mut self, helper: usize) {
        self.time.wait_lock += self.now - self.helpers[helper].since;
        self.helpers[helper].since = self.now;
        if self.has_room(helper) && self.room_waiters.is_empty() {
            self.write(helper);
        } else {
            self.room_waiters.push_back(helper);
        }
    }

    fn has_room(&self, helper: usize) -> bool {
        if self.machine.disk_rate.is_infinite() {
            return true;
        }
        let bytes = self.helpers[helper].piece.bytes;
        let mut room = self.machine.buffer;
        if self.merged > 1.0 {
            // Merged pieces may be larger than the buffer. Helpers and disks still work
            // concurrently.
            let pieces = 2 * self.disks.len() + self.helpers.len();
            room = room.max(self.pass.piece.bytes * self.merged * pieces as f64);
        }
        self.buffered + bytes <= room || self.buffered <= 0.0
    }

    fn write(&mut self, helper: usize) {
        let state = &self.helpers[helper];
        self.time.wait_disk += self.now - state.since;
        let mut time = state.piece.write.at(self.helpers.len());
        if state.contended {
            time += self.machine.hand_over * self.merged;
        }
        if self.machine.disk_rate.is_finite() {
            self.buffered += state.piece.bytes;
        }
        self.time.write += time;
        if self.machine.one_file {
            self.lock_time += time;
        }
        self.events.add(self.now + time, Event::Written(helper));
    }

    fn written(&mut self, helper: usize) {
        let bytes = self.helpers[helper].piece.bytes;
        self.bytes += bytes;
        self.locked = false;
        if self.machine.one_file
            && let Some(next) = self.lock_waiters.pop_front()
        {
            self.locked = true;
            self.ask_for_room(next);
        }
        if self.machine.disk_rate.is_infinite() {
            self.take(helper);
            return;
        }
        let disk = self.next_disk;
        self.next_disk = (disk + 1) % self.disks.len();
        self.disks[disk].push_back((helper, bytes));
        if self.disks[disk].len() == 1 {
            self.start_disk(disk);
        }
        if self.machine.synchronous {
            self.helpers[helper].since = self.now;
        } else {
            self.take(helper);
        }
    }

    fn start_disk(&mut self, disk: usize) {
        if let Some((_, bytes)) = self.disks[disk].front() {
            let time = bytes / self.machine.disk_rate * NANOSECONDS;
            self.disk_time += time;
            self.events.add(self.now + time, Event::OnDisk(disk));
        }
    }

    fn on_disk(&mut self, disk: usize) {
        let Some((helper, bytes)) = self.disks[disk].pop_front() else {
            return;
        };
        self.start_disk(disk);
        self.buffered -= bytes;
        while let Some(waiter) = self.room_waiters.front().copied()
            && self.has_room(waiter)
        {
            self.room_waiters.pop_front();
            self.write(waiter);
        }
        if self.machine.synchronous {
            self.time.wait_disk += self.now - self.helpers[helper].since;
            self.take(helper);
        }
    }

    fn outcome(self, end: f64, phases: Vec<(&'static str, f64)>) -> Outcome {
        let count = self.helpers.len() as f64;
        let per_bus = self.machine.bus_helpers * end;
        let mut time = self.time;
        let used = Utilisation {
            cpu: time.busy() / (count * end),
            bus: time.source / per_bus,
            lock: self.lock_time / end,
            take: self.take_time / end,
            disks: self.disk_time / (self.disks.len() as f64 * end),
        };
        for part in [
            &mut time.source,
            &mut time.cpu,
            &mut time.flush,
            &mut time.write,
            &mut time.wait_take,
            &mut time.wait_bus,
            &mut time.wait_lock,
            &mut time.wait_disk,
        ] {
            *part /= NANOSECONDS;
        }
        Outcome {
            helpers: self.helpers.len(),
            seconds: end / NANOSECONDS,
            phases,
            bytes: self.bytes,
            time,
            used,
        }
    }
}

/// Returns the sizes of `count` pieces relative to the mean; their mean is 1.
fn weights(count: u64, spread: f64, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut weights: Vec<f64> = (0..count)
        .map(|_| 1.0 + spread * (2.0 * random(&mut state) - 1.0))
        .collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight *= count as f64 / sum;
    }
    weights
}

/// Returns a number in the range from 0 to below 1 (SplitMix64, Steele, Lea and Flood, 2014).
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}
