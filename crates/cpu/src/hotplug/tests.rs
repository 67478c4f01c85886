//! Plans and their outcomes on fake files.

use std::fs;
use std::os::unix::fs::symlink;

use super::fake::Fake;
use super::*;
use crate::list::CpuList;

fn list(text: &str) -> CpuList {
    text.parse().unwrap()
}

fn options() -> Options {
    Options {
        watchdog: Fake::watchdog(),
        command: "a test".into(),
        ..Options::default()
    }
}

fn offline(fake: &Fake, cpus: &str) -> Result<Plan, HotplugError> {
    let root = fake.sys_root();
    Plan::offline(&root, &Cpus::read(&root).unwrap(), &list(cpus))
}

fn smt(fake: &Fake, threads: &str) -> Result<Plan, HotplugError> {
    let root = fake.sys_root();
    let threads = threads.parse().unwrap();
    Plan::smt(&root, &Cpus::read(&root).unwrap(), threads)
}

fn go(fake: &Fake, plan: &Plan) -> Outcome {
    carry_out(&fake.sys_root(), plan, &options(), &|| false, &mut |_| {}).unwrap()
}

#[test]
fn settings_are_changed_while_cpus_go_offline_and_restored_after() {
    let fake = Fake::new();
    let plan = offline(&fake, "1-3").unwrap();
    assert_eq!(plan.order, [3, 1, 2]);
    assert_eq!(plan.settings.len(), 2);
    let mut seen = Vec::new();
    let mut progress = |done| seen.push((done, fake.settings()));
    let outcome = carry_out(
        &fake.sys_root(),
        &plan,
        &options(),
        &|| false,
        &mut progress,
    )
    .unwrap();
    assert!(outcome.is_good(), "{outcome:?}");
    assert_eq!(outcome.done, list("1-3"));
    let during = ["1", "N"].map(str::to_owned);
    let expected: Vec<_> = (1..=3).map(|done| (done, during.clone())).collect();
    assert_eq!(seen, expected);
    assert_eq!(fake.settings(), ["0", "Y"]);
    assert_eq!(fake.switches(), ["0", "0", "0"]);

    fake.write("sys/devices/system/cpu/online", "0\n");
    let cpus = Cpus::read(&fake.sys_root()).unwrap();
    let plan = Plan::online(&fake.sys_root(), &cpus, &list("0-2")).unwrap();
    assert_eq!(
        (plan.order.clone(), plan.already.clone()),
        (vec![1, 2], list("0"))
    );
    assert!(go(&fake, &plan).is_good());
    assert_eq!(fake.switches(), ["1", "1", "0"]);
}

#[test]
fn failed_cpu_is_reported_and_the_others_go_offline() {
    let fake = Fake::new();
    let switch = fake.path("sys/devices/system/cpu/cpu3/online");
    fs::remove_file(&switch).unwrap();
    symlink("/dev/full", &switch).unwrap();
    let outcome = go(&fake, &offline(&fake, "1-3").unwrap());
    assert_eq!(outcome.done, list("1-2"));
    let [failure] = &outcome.failed[..] else {
        panic!("{outcome:?}");
    };
    assert!(failure.cpu == 3 && failure.error.contains("cpu3/online: No space left"));
    assert!(!outcome.is_good());
    assert_eq!(fake.settings(), ["0", "Y"]);
}

#[test]
fn interruption_stops_between_cpus_and_leaves_smt_control_unchanged() {
    let fake = Fake::new();
    let mut plan = smt(&fake, "off").unwrap();
    assert_eq!(plan.order, [3, 1]);
    plan.order.push(2);
    let done = std::cell::Cell::new(0);
    let is_stopped = || done.get() == 1;
    let mut progress = |now| done.set(now);
    let outcome = carry_out(
        &fake.sys_root(),
        &plan,
        &options(),
        &is_stopped,
        &mut progress,
    )
    .unwrap();
    assert!(outcome.is_interrupted);
    assert_eq!((outcome.done, outcome.left), (list("3"), list("1-2")));
    assert_eq!(fake.switches(), ["1", "1", "0"]);
    assert_eq!(fake.says("sys/devices/system/cpu/smt/control"), "on");
    assert_eq!(fake.settings(), ["0", "Y"]);
}

#[test]
fn threads_go_offline_by_core_before_smt_control_is_set() {
    let fake = Fake::new();
    let plan = smt(&fake, "1").unwrap();
    assert_eq!(plan.control_last.as_deref(), Some("off"));
    assert!(go(&fake, &plan).is_good());
    assert_eq!(fake.switches(), ["0", "1", "0"]);
    assert_eq!(fake.says("sys/devices/system/cpu/smt/control"), "off");

    // The kernel now lists each online thread alone.
    fake.write("sys/devices/system/cpu/online", "0,2\n");
    fake.write("sys/devices/system/cpu/online", "0,2\n");
    fake.write("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n");
    fake.write("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "2\n");
    assert!(smt(&fake, "off").unwrap().is_empty());
    let plan = smt(&fake, "on").unwrap();
    assert_eq!(plan.control_first.as_deref(), Some("on"));
    // The fake kernel brings no CPU online by itself, so the rest is brought online one by one.
    let outcome = go(&fake, &plan);
    assert!(
        outcome.is_good() && outcome.done == list("1,3"),
        "{outcome:?}"
    );
    // A regular file keeps the rest of its old contents; a kernel file would not.
    assert_eq!(fake.says("sys/devices/system/cpu/smt/control"), "onf");
}

#[test]
fn number_of_threads_is_set_on_power_without_a_policy() {
    let fake = Fake::new();
    fake.write("sys/devices/system/cpu/smt/control", "notimplemented\n");
    fake.write(
        "proc/device-tree/cpus/PowerPC,POWER9@0/ibm,ppc-interrupt-server#s",
        "01234567",
    );
    fake.write("proc/device-tree/cpus/name", "cpus");
    let plan = smt(&fake, "1").unwrap();
    assert_eq!(
        (plan.direction, plan.order),
        (Direction::Offline, vec![3, 1])
    );
    // The second core is offline, and remains so.
    fake.write("sys/devices/system/cpu/online", "0\n");
    fake.write("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n");
    let plan = smt(&fake, "2").unwrap();
    assert_eq!((plan.direction, plan.order), (Direction::Online, vec![1]));
    assert!(
        plan.notes
            .iter()
            .any(|note| note.contains("by their numbers"))
    );
    fake.write("sys/devices/system/cpu/online", "0,3\n");
    let plan = smt(&fake, "1").unwrap();
    assert_eq!((plan.direction, plan.order), (Direction::Offline, vec![3]));
    assert!(
        plan.notes
            .iter()
            .any(|note| note.contains("CPUs 2 are among"))
    );
    let error = smt(&fake, "4").unwrap_err().to_string();
    assert!(error.contains('4'), "{error}");
}

#[test]
fn without_smt_policy_threads_are_identified_by_their_cores() {
    let fake = Fake::new();
    fake.write("sys/devices/system/cpu/smt/control", "notsupported\n");
    let plan = smt(&fake, "off").unwrap();
    assert_eq!(
        (plan.order.clone(), plan.control_last.clone()),
        (vec![3, 1], None)
    );
    assert!(plan.notes.iter().any(|note| note.contains("notsupported")));
    let error = smt(&fake, "3").unwrap_err().to_string();
    assert!(
        error.contains("3 threads per core: cores have 2"),
        "{error}"
    );
    fake.write("sys/devices/system/cpu/smt/control", "forceoff\n");
    assert!(matches!(smt(&fake, "on"), Err(HotplugError::ForcedOff(_))));
}

#[test]
fn invalid_requests_are_refused_before_any_change() {
    let fake = Fake::new();
    let says = |cpus: &str| offline(&fake, cpus).unwrap_err().to_string();
    assert!(says("2-5").contains("CPUs 4-5 are not present; this machine has 0-3"));
    assert!(says("0-3").contains("leaves none"));
    assert!(says("0,2").contains("CPUs 0 cannot go"));
    fake.write("sys/devices/system/cpu/isolated", "2-3\n");
    fake.write("sys/devices/system/cpu/cpu0/online", "1\n");
    assert!(says("0-1").contains("leaves 2-3, which are isolated"));
    assert_eq!(fake.switches(), ["1", "1", "1"]);
    fake.write("sys/devices/system/cpu/online", "all of them\n");
    let error = Cpus::read(&fake.sys_root()).unwrap_err().to_string();
    assert!(
        error.contains("cpu/online: invalid CPU list \"all of them"),
        "{error}"
    );
}

#[test]
fn rcu_normal_overrides_expedited_and_is_noted() {
    let fake = Fake::new();
    fake.write("sys/kernel/rcu_normal", "1\n");
    let plan = offline(&fake, "1").unwrap();
    assert_eq!(plan.settings.len(), 1);
    assert!(
        plan.notes
            .iter()
            .any(|note| note.contains("rcu_normal is set"))
    );
}

#[test]
fn nodes_interrupts_and_tasks_losing_their_last_cpu_are_listed() {
    let fake = Fake::new();
    fake.write("sys/devices/system/cpu/isolated", "3\n");
    fake.write("sys/devices/system/cpu/nohz_full", "2-3\n");
    for cpu in [2, 3] {
        let directory = fake.path(&format!("sys/devices/system/cpu/cpu{cpu}"));
        fs::rename(directory.join("node0"), directory.join("node1")).unwrap();
    }
    for (number, cpus, flags) in [
        (30, "2-3", Some("IRQD_AFFINITY_MANAGED")),
        (31, "3", Some("IRQD_LEVEL")),
        (32, "2", None),
        (33, "1-2", None),
    ] {
        fake.write(&format!("proc/irq/{number}/smp_affinity_list"), cpus);
        fake.write(&format!("sys/kernel/irq/{number}/actions"), "nvme0q1\n");
        if let Some(flags) = flags {
            fake.write(&format!("sys/kernel/debug/irq/irqs/{number}"), flags);
        }
    }
    let status = |parent, cpus| format!("Name:\tdb\nPPid:\t{parent}\nCpus_allowed_list:\t{cpus}\n");
    fake.write("proc/100/status", &status(1, "2-3"));
    fake.write("proc/101/status", &status(1, "1-3"));
    fake.write("proc/102/status", &status(2, "3"));
    let effects = offline(&fake, "2-3").unwrap().effects;
    assert_eq!(effects.nodes, [1]);
    assert_eq!(effects.tasks.some, ["db (100)"]);
    let text = effects.to_string();
    for line in [
        "CPUs 3 are isolated",
        "CPUs 2-3 run without a tick",
        "memory node 1 is left",
        "managed interrupts that are shut down with the last of their CPUs: 30 (nvme0q1)\n",
        "other CPUs permanently: 31 (nvme0q1)\n",
        "lose the last of their CPUs: 32 (nvme0q1); they move",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    assert_eq!(offline(&fake, "1").unwrap().effects.to_string(), "");
}

#[test]
fn without_cgroups_domains_are_rebuilt_per_cpu_with_a_note() {
    let fake = Fake::new();
    let plan = offline(&fake, "1").unwrap();
    let batch = Options {
        batch: true,
        ..options()
    };
    let outcome = carry_out(&fake.sys_root(), &plan, &batch, &|| false, &mut |_| {}).unwrap();
    assert!(outcome.is_good());
    assert!(
        outcome
            .notes
            .iter()
            .any(|note| note.contains("rebuilt for each CPU"))
    );
    let plain = Options {
        plain: true,
        watchdog: Vec::new(),
        ..options()
    };
    let outcome = carry_out(&fake.sys_root(), &plan, &plain, &|| false, &mut |_| {}).unwrap();
    assert!(outcome.is_good());
}
