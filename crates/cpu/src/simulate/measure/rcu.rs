//! Costs of waiting for RCU.

use std::fs;
use std::path::Path;
use std::time::Instant;

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

use super::measured::{Basis, Measured};
use crate::tune::TemporarySettings;

const SWITCH: &str = "/sys/kernel/rcu_expedited";
/// Number of grace periods to measure. Each may take some ten milliseconds.
const PERIODS: usize = 11;
/// Number of expedited grace periods to measure. Each takes microseconds.
const EXPEDITED: usize = 101;

pub(super) fn measure(expedite: Option<&dyn TemporarySettings>, measured: &mut Measured) {
    let (normal, expedited) = (["grace_period"], ["grace_period_expedited"]);
    let by = "membarrier(MEMBARRIER_CMD_GLOBAL), which is synchronize_rcu";
    let assumed = |why: &str| format!("value of a POWER10 of 2022: {why}");
    if let Err(why) = can_wait() {
        measured.say(&normal, Basis::Assumed, assumed(why));
        measured.say(&expedited, Basis::Assumed, assumed(why));
        return;
    }
    if is_expedited() {
        let why = format!("{SWITCH} is on");
        measured.say(&normal, Basis::Assumed, assumed(&why));
        if let Some(period) = period(EXPEDITED) {
            measured.costs.grace_period_expedited = period;
        }
        measured.say(&expedited, Basis::Measured, format!("{by}, while {why}"));
        return;
    }
    match period(PERIODS) {
        Some(period) => {
            measured.costs.grace_period = period;
            measured.say(&normal, Basis::Measured, by);
        }
        None => measured.say(&normal, Basis::Assumed, assumed("membarrier failed")),
    }
    let set = match expedite {
        None => Err(format!("{SWITCH} is not changed without --expedite")),
        Some(switch) => switch.set(Path::new(SWITCH), "1"),
    };
    let time = set.and_then(|held| {
        let time = period(EXPEDITED).ok_or("membarrier failed".to_owned());
        held.restore().and(time)
    });
    match time {
        Ok(period) => {
            measured.costs.grace_period_expedited = period;
            let by = format!("{by}, while {SWITCH} was on");
            measured.say(&expedited, Basis::Measured, by);
        }
        Err(why) => measured.say(&expedited, Basis::Assumed, assumed(&why)),
    }
}

/// Checks that the system call waits for grace periods. With one online CPU it returns at once,
/// and with nohz_full it is not available (kernel/sched/membarrier.c).
fn can_wait() -> Result<(), &'static str> {
    if !membarrier_query().contains(MembarrierQuery::GLOBAL) {
        return Err("this kernel has no MEMBARRIER_CMD_GLOBAL");
    }
    match fs::read_to_string("/sys/devices/system/cpu/online") {
        Ok(online) if online.trim() == "0" => {
            Err("with one online CPU, there is no grace period to wait for")
        }
        _ => Ok(()),
    }
}

fn is_expedited() -> bool {
    let text = fs::read_to_string(SWITCH);
    text.is_ok_and(|text| text.trim() != "0")
}

/// Returns the median of `times` grace periods, in seconds.
fn period(times: usize) -> Option<f64> {
    let wait = || {
        let start = Instant::now();
        membarrier(MembarrierCommand::Global).ok()?;
        Some(start.elapsed().as_secs_f64())
    };
    let all: Option<Vec<f64>> = (0..times).map(|_| wait()).collect();
    let mut all = all?;
    all.sort_by(f64::total_cmp);
    all.get(times / 2).copied()
}
