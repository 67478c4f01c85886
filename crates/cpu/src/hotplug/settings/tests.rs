//! Journals on fake files. What survives kills is tested with the program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::hotplug::fake::Fake;

const JOURNAL: &str = "run/bigiron/cpu.journal";

/// A child of another test has the lock as well, until it executes its program.
const PATIENCE: Duration = Duration::from_secs(10);

fn begin(fake: &Fake, patience: Duration) -> Result<(Settings, Vec<Undone>), SettingsError> {
    Settings::begin(&fake.place(), &Fake::watchdog(), patience, "a test")
}

/// Settings changed as hotplug changes them.
fn changed(fake: &Fake) -> Settings {
    let (mut settings, undone) = begin(fake, PATIENCE).unwrap();
    assert!(undone.is_empty());
    let place = fake.place();
    assert!(settings.set(&place.rcu_expedited(), "1").unwrap());
    assert!(settings.set(&place.verbose(), "N").unwrap());
    assert!(!settings.set(&place.verbose(), "N").unwrap());
    assert_eq!(fake.settings(), ["1", "N"]);
    settings
}

/// As a kill leaves it: changed values, and a journal.
fn killed(fake: &Fake) {
    let settings = changed(fake);
    let journal = fs::read(fake.path(JOURNAL)).unwrap();
    settings.restore().unwrap();
    fs::write(fake.path(JOURNAL), journal).unwrap();
    fake.write("sys/kernel/rcu_expedited", "1\n");
    fake.write("sys/kernel/debug/sched/verbose", "N\n");
}

#[test]
fn what_was_changed_is_in_a_journal_of_its_owner_alone_and_put_back() {
    let fake = Fake::new();
    let settings = changed(&fake);
    let mode = fs::metadata(fake.path(JOURNAL)).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let journal = Journal::read(&fake.place()).unwrap().unwrap();
    assert_eq!(journal.undo.len(), 2);
    assert!(journal.is_alive() && journal.boot == "one");
    assert_eq!(settings.restore().unwrap().len(), 2);
    assert_eq!(fake.settings(), ["0", "Y"]);
    assert!(!fake.path(JOURNAL).exists());
    // Without a word, too.
    drop(changed(&fake));
    assert_eq!(fake.settings(), ["0", "Y"]);
}

#[test]
fn what_somebody_else_set_meanwhile_stays() {
    let fake = Fake::new();
    let settings = changed(&fake);
    fake.write("sys/kernel/rcu_expedited", "2\n");
    let undone = settings.restore().unwrap();
    assert_eq!(fake.settings(), ["2", "Y"]);
    let left = |what: &&Undone| matches!(what, Undone::Left(text) if text.contains("is 2 by"));
    assert_eq!(undone.iter().filter(left).count(), 1, "{undone:?}");
    assert!(!fake.path(JOURNAL).exists());
}

#[test]
fn what_a_kill_left_is_put_back_by_hand_or_by_the_next() {
    let fake = Fake::new();
    killed(&fake);
    assert_eq!(restore(&fake.place(), PATIENCE).unwrap().len(), 2);
    assert_eq!(fake.settings(), ["0", "Y"]);
    assert!(restore(&fake.place(), PATIENCE).unwrap().is_empty());

    killed(&fake);
    let (mut settings, undone) = begin(&fake, PATIENCE).unwrap();
    assert_eq!(undone.len(), 2);
    settings.set(&fake.place().rcu_expedited(), "1").unwrap();
    settings.restore().unwrap();
    assert_eq!(fake.settings(), ["0", "Y"]);
}

#[test]
fn a_journal_of_another_boot_is_thrown_away() {
    let fake = Fake::new();
    killed(&fake);
    fake.write("proc/sys/kernel/random/boot_id", "another\n");
    assert!(restore(&fake.place(), PATIENCE).unwrap().is_empty());
    assert_eq!(fake.settings(), ["1", "N"]);
    assert!(!fake.path(JOURNAL).exists());
}

#[test]
fn two_at_once_is_complete_of_each_other() {
    let fake = Fake::new();
    let settings = changed(&fake);
    let error = begin(&fake, Duration::ZERO).unwrap_err().to_string();
    let who = format!("`a test`, process {}, is at work", std::process::id());
    assert!(error.contains(&who), "{error}");
    let error = restore(&fake.place(), Duration::ZERO).unwrap_err();
    assert!(matches!(error, SettingsError::Busy { .. }));
    assert_eq!(fake.settings(), ["1", "N"]);
    settings.restore().unwrap();
    drop(begin(&fake, PATIENCE).unwrap());
}

#[test]
fn what_cannot_be_put_back_stays_in_the_journal() {
    let fake = Fake::new();
    let settings = changed(&fake);
    let file = fake.path("sys/kernel/rcu_expedited");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let error = settings.restore().unwrap_err().to_string();
    assert!(error.contains("rcu_expedited to 0"), "{error}");
    assert_eq!(fake.says("sys/kernel/debug/sched/verbose"), "Y");
    assert_eq!(Journal::read(&fake.place()).unwrap().unwrap().undo.len(), 1);
    fs::remove_dir(&file).unwrap();
    fake.write("sys/kernel/rcu_expedited", "1\n");
    restore(&fake.place(), PATIENCE).unwrap();
    assert_eq!(fake.settings(), ["0", "Y"]);
}

#[test]
fn nothing_is_changed_where_nobody_would_put_it_back() {
    let fake = Fake::new();
    let place = fake.place();
    for program in ["false", "/is/not/there"] {
        let error = Settings::begin(&place, &vec![program.into()], PATIENCE, "a test");
        let error = error.unwrap_err();
        assert!(matches!(error, SettingsError::Watchdog(_)), "{error}");
    }
    fs::write(fake.path(JOURNAL), "{").unwrap();
    let error = begin(&fake, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("put the old values back by hand"), "{error}");
    let everyone = fs::Permissions::from_mode(0o777);
    fs::set_permissions(fake.path("run/bigiron"), everyone).unwrap();
    let error = begin(&fake, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("others can write to it"), "{error}");
    assert_eq!(fake.settings(), ["0", "Y"]);
}
