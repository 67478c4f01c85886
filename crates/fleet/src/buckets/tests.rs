#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use super::*;

const DAY: i64 = 86_400_000;

fn row(title: &str, host: &str, day: i64) -> Row {
    Row {
        title: Some(title.to_owned()),
        host: Some(host.to_owned()),
        crash_time: Some(day * DAY),
        kernel_release: Some("6.1.0".to_owned()),
        ..Row::default()
    }
}

fn count(rows: Vec<Row>) -> Buckets {
    let mut counter = Counter::default();
    rows.into_iter().for_each(|row| counter.add(row));
    counter.finish()
}

#[test]
fn buckets_are_ordered_by_machines_and_not_by_crashes() {
    let found = count(vec![
        row("often in a", "one", 5),
        row("often in a", "one", 6),
        row("often in a", "one", 7),
        row("wide in b", "two", 3),
        row("wide in b", "three", 9),
        Row::default(),
        Row {
            kind: Row::UNKNOWN.to_owned(),
            ..Row::default()
        },
    ]);
    assert_eq!(
        (
            found.rows,
            found.without_crash,
            found.failed,
            found.machines
        ),
        (7, 1, 1, 3)
    );
    let titles: Vec<_> = found
        .buckets
        .iter()
        .map(|bucket| bucket.title.as_str())
        .collect();
    assert_eq!(titles, ["wide in b", "often in a"]);
    let seen = &found.buckets[0].seen;
    assert_eq!((seen.first, seen.last), (Some(3 * DAY), Some(9 * DAY)));
    assert_eq!((seen.machines(), seen.crashes), (2, 2));
    assert_eq!(seen.days()[1], Day { day: 9, crashes: 1 });
    assert_eq!(seen.kernels()[0].crashes, 2);
}

#[test]
fn crashes_with_meeting_titles_or_one_fingerprint_are_one_bucket() {
    let other = |title: &str| Row {
        alternative_titles: vec!["bad-access in a".to_owned()],
        ..row(title, "one", 1)
    };
    let same = |title: &str| Row {
        fingerprint: Some("f00d".to_owned()),
        ..row(title, "two", 1)
    };
    let found = count(vec![
        other("use-after-free in a"),
        other("null in a"),
        same("x in b"),
        same("y in b"),
        row("z in c", "three", 1),
    ]);
    assert_eq!(found.buckets.len(), 3);
    let bucket = found.find("null in a").unwrap();
    assert_eq!(bucket.titles, ["null in a", "use-after-free in a"]);
    assert!(bucket.has(&other("null in a")) && !bucket.has(&same("x in b")));
    assert_eq!(found.find("f00d").unwrap().seen.crashes, 2);
}

#[test]
fn corrupted_reports_join_no_others() {
    let corrupted = Row {
        corrupted: Some(true),
        ..row("null in a", "one", 1)
    };
    let found = count(vec![corrupted, row("null in a", "two", 1)]);
    assert_eq!(found.buckets.len(), 2);
}

#[test]
fn similar_stacks_are_found_by_their_rare_functions() {
    let stack = |title: &str, frames: &[&str]| Row {
        frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
        ..row(title, "one", 1)
    };
    let found = count(vec![
        stack(
            "null in a",
            &["a", "rare", "rarer", "vfs_write", "do_syscall"],
        ),
        stack(
            "hang in b",
            &["b", "rare", "rarer", "vfs_write", "do_syscall"],
        ),
        stack("null in c", &["c", "d", "e", "vfs_write", "do_syscall"]),
        stack("null in g", &["g", "h", "i", "vfs_write", "do_syscall"]),
    ]);
    let similar = |title: &str| found.find(title).unwrap().similar.clone();
    let of_a = similar("null in a");
    assert_eq!(of_a.len(), 1, "{of_a:?}");
    assert_eq!(of_a[0].title, "hang in b");
    assert_eq!(similar("hang in b")[0].score, of_a[0].score);
    assert!(similar("null in c").is_empty());
}

#[test]
fn hosts_with_many_titles_are_named() {
    let mut rows: Vec<_> = (0..3)
        .map(|n| row(&format!("x in f{n}"), "bad", n))
        .collect();
    rows.extend((0..9).map(|n| row("x in f0", &format!("good{n}"), n)));
    let found = count(rows);
    let hosts: Vec<_> = found
        .hosts
        .iter()
        .map(|host| (host.host.as_str(), host.titles.len()))
        .collect();
    assert_eq!(hosts, [("bad", 3)]);
}
