//! Histogram of the times of many CPUs.

use std::fmt::Write as _;

use super::CpuDuration;

/// Length of the longest bar, in characters.
const WIDTH: usize = 40;

/// Returns a line with the median and the longest time, and one line for each power of two of
/// milliseconds.
pub fn histogram(took: &[CpuDuration]) -> String {
    let mut sorted: Vec<f64> = took.iter().map(|one| one.seconds).collect();
    sorted.sort_by(f64::total_cmp);
    let longest = took.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let (Some(longest), Some(median)) = (longest, sorted.get(sorted.len() / 2)) else {
        return String::new();
    };
    let mut out = format!(
        "each CPU: median {}, longest {} (CPU {})\n",
        time(*median),
        time(longest.seconds),
        longest.cpu
    );
    let bin = |seconds: f64| (seconds * 1e3).max(2_f64.powi(-4)).log2().floor() as i32;
    let bins: Vec<i32> = sorted.iter().map(|seconds| bin(*seconds)).collect();
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return out;
    };
    let count = |bin: i32| bins.iter().filter(|one| **one == bin).count();
    let most = (*first..=*last).map(count).max().unwrap_or(1).max(1);
    for bin in *first..=*last {
        let (from, to) = (2_f64.powi(bin) / 1e3, 2_f64.powi(bin + 1) / 1e3);
        let bar = "#".repeat((count(bin) * WIDTH).div_ceil(most));
        let _ = writeln!(
            out,
            "{:>9} to {:<9} {bar} {}",
            time(from),
            time(to),
            count(bin)
        );
    }
    out
}

fn time(seconds: f64) -> String {
    let ms = seconds * 1e3;
    match ms {
        ms if ms < 1.0 => format!("{ms:.2} ms"),
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_one_bin_and_the_fullest_has_the_longest_bar() {
        let seconds = [0.003, 0.0031, 0.0039, 0.009, 1.5];
        let took: Vec<CpuDuration> = (0..)
            .zip(seconds)
            .map(|(cpu, seconds)| CpuDuration { cpu, seconds })
            .collect();
        let text = histogram(&took);
        assert!(text.starts_with("each CPU: median 3.9 ms, longest 1.5 s (CPU 4)\n"));
        let counts: Vec<usize> = text
            .lines()
            .skip(1)
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(counts.iter().sum::<usize>(), 5);
        assert_eq!(counts.first(), Some(&3));
        assert!(
            text.contains(&format!("2.0 ms to 4.0 ms    {} 3", "#".repeat(WIDTH))),
            "{text}"
        );
        assert_eq!(histogram(&[]), "");
    }
}
