//! Journals on fake files. Kills are tested with the whole program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::hotplug::fake::Fake;

const JOURNAL: &str = "run/bigiron/cpu.journal";

/// Lock timeout: a child of another test also holds the lock until it executes its program.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

fn begin(fake: &Fake, lock_timeout: Duration) -> Result<(Settings, Vec<Undone>), SettingsError> {
    Settings::begin(&fake.sys_root(), &Fake::watchdog(), lock_timeout, "a test")
}

/// Changes settings as hotplug does.
fn changed(fake: &Fake) -> Settings {
    let (mut settings, undone) = begin(fake, LOCK_TIMEOUT).unwrap();
    assert!(undone.is_empty());
    let root = fake.sys_root();
    assert!(settings.set(&root.rcu_expedited(), "1").unwrap());
    assert!(settings.set(&root.verbose(), "N").unwrap());
    assert!(!settings.set(&root.verbose(), "N").unwrap());
    assert_eq!(fake.settings(), ["1", "N"]);
    settings
}

/// Recreates the state after a kill: changed values and a journal.
fn killed(fake: &Fake) {
    let settings = changed(fake);
    let journal = fs::read(fake.path(JOURNAL)).unwrap();
    settings.restore().unwrap();
    fs::write(fake.path(JOURNAL), journal).unwrap();
    fake.write("sys/kernel/rcu_expedited", "1\n");
    fake.write("sys/kernel/debug/sched/verbose", "N\n");
}

#[test]
fn changes_are_in_a_private_journal_and_are_restored() {
    let fake = Fake::new();
    let settings = changed(&fake);
    let mode = fs::metadata(fake.path(JOURNAL)).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let journal = Journal::read(&fake.sys_root()).unwrap().unwrap();
    assert_eq!(journal.undo.len(), 2);
    assert!(journal.is_alive() && journal.boot == "one");
    assert_eq!(settings.restore().unwrap().len(), 2);
    assert_eq!(fake.settings(), ["0", "Y"]);
    assert!(!fake.path(JOURNAL).exists());
    // Dropping restores them as well.
    drop(changed(&fake));
    assert_eq!(fake.settings(), ["0", "Y"]);
}

#[test]
fn values_set_by_another_process_meanwhile_are_kept() {
    let fake = Fake::new();
    let settings = changed(&fake);
    fake.write("sys/kernel/rcu_expedited", "2\n");
    let undone = settings.restore().unwrap();
    assert_eq!(fake.settings(), ["2", "Y"]);
    let left = |what: &&Undone| matches!(what, Undone::Left(text) if text.contains("set to 2 by"));
    assert_eq!(undone.iter().filter(left).count(), 1, "{undone:?}");
    assert!(!fake.path(JOURNAL).exists());
}

#[test]
fn settings_left_by_a_kill_are_restored_by_restore_or_the_next_command() {
    let fake = Fake::new();
    killed(&fake);
    assert_eq!(restore(&fake.sys_root(), LOCK_TIMEOUT).unwrap().len(), 2);
    assert_eq!(fake.settings(), ["0", "Y"]);
    assert!(restore(&fake.sys_root(), LOCK_TIMEOUT).unwrap().is_empty());

    killed(&fake);
    let (mut settings, undone) = begin(&fake, LOCK_TIMEOUT).unwrap();
    assert_eq!(undone.len(), 2);
    settings.set(&fake.sys_root().rcu_expedited(), "1").unwrap();
    settings.restore().unwrap();
    assert_eq!(fake.settings(), ["0", "Y"]);
}

#[test]
fn journal_of_another_boot_is_discarded() {
    let fake = Fake::new();
    killed(&fake);
    fake.write("proc/sys/kernel/random/boot_id", "another\n");
    assert!(restore(&fake.sys_root(), LOCK_TIMEOUT).unwrap().is_empty());
    assert_eq!(fake.settings(), ["1", "N"]);
    assert!(!fake.path(JOURNAL).exists());
}

#[test]
fn second_command_is_refused_with_the_name_of_the_first() {
    let fake = Fake::new();
    let settings = changed(&fake);
    let error = begin(&fake, Duration::ZERO).unwrap_err().to_string();
    let who = format!("`a test`, process {}, is running", std::process::id());
    assert!(error.contains(&who), "{error}");
    let error = restore(&fake.sys_root(), Duration::ZERO).unwrap_err();
    assert!(matches!(error, SettingsError::Busy { .. }));
    assert_eq!(fake.settings(), ["1", "N"]);
    settings.restore().unwrap();
    drop(begin(&fake, LOCK_TIMEOUT).unwrap());
}

#[test]
fn settings_that_cannot_be_restored_stay_in_the_journal() {
    let fake = Fake::new();
    let settings = changed(&fake);
    let file = fake.path("sys/kernel/rcu_expedited");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let error = settings.restore().unwrap_err().to_string();
    assert!(error.contains("rcu_expedited to 0"), "{error}");
    assert_eq!(fake.says("sys/kernel/debug/sched/verbose"), "Y");
    assert_eq!(
        Journal::read(&fake.sys_root()).unwrap().unwrap().undo.len(),
        1
    );
    fs::remove_dir(&file).unwrap();
    fake.write("sys/kernel/rcu_expedited", "1\n");
    restore(&fake.sys_root(), LOCK_TIMEOUT).unwrap();
    assert_eq!(fake.settings(), ["0", "Y"]);
}

#[test]
fn nothing_is_changed_without_watchdog_or_safe_journal() {
    let fake = Fake::new();
    let root = fake.sys_root();
    for program in ["false", "/is/not/there"] {
        let error = Settings::begin(&root, &vec![program.into()], LOCK_TIMEOUT, "a test");
        let error = error.unwrap_err();
        assert!(matches!(error, SettingsError::Watchdog(_)), "{error}");
    }
    fs::write(fake.path(JOURNAL), "{").unwrap();
    let error = begin(&fake, LOCK_TIMEOUT).unwrap_err().to_string();
    assert!(error.contains("restore the old values manually"), "{error}");
    let everyone = fs::Permissions::from_mode(0o777);
    fs::set_permissions(fake.path("run/bigiron"), everyone).unwrap();
    let error = begin(&fake, LOCK_TIMEOUT).unwrap_err().to_string();
    assert!(error.contains("writable by other users"), "{error}");
    assert_eq!(fake.settings(), ["0", "Y"]);
}
