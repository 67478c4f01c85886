//! Whether a failure becomes a panic, and a panic starts the capture kernel.

use super::line::{Line, Verdict};
use super::root::Root;

/// The bit of kernel.sysrq that allows `c` on the keyboard (SYSRQ_ENABLE_DUMP,
/// drivers/tty/sysrq.c). /proc/sysrq-trigger takes it at any value.
const SYSRQ_CRASH: u64 = 8;

/// A setting that turns a kind of failure into a panic.
struct Trigger {
    name: &'static str,
    file: &'static str,
    failure: &'static str,
    /// The verdict if it is 0.
    without: Verdict,
}

const TRIGGERS: [Trigger; 5] = [
    Trigger {
        name: "panic_on_oops",
        file: "proc/sys/kernel/panic_on_oops",
        failure: "a fault in the kernel",
        without: Verdict::Warning,
    },
    Trigger {
        name: "hardlockup_panic",
        file: "proc/sys/kernel/hardlockup_panic",
        failure: "a CPU that takes no interrupts",
        without: Verdict::Note,
    },
    Trigger {
        name: "softlockup_panic",
        file: "proc/sys/kernel/softlockup_panic",
        failure: "a CPU that does not schedule",
        without: Verdict::Note,
    },
    Trigger {
        name: "hung_task_panic",
        file: "proc/sys/kernel/hung_task_panic",
        failure: "a task that waits for minutes",
        without: Verdict::Note,
    },
    Trigger {
        name: "panic_on_rcu_stall",
        file: "proc/sys/kernel/panic_on_rcu_stall",
        failure: "an RCU stall",
        without: Verdict::Note,
    },
];

/// Checks the settings.
pub fn check(root: &Root) -> Vec<Line> {
    let mut lines = vec![loaded(root)];
    lines.extend(
        TRIGGERS
            .iter()
            .filter_map(|trigger| triggered(root, trigger)),
    );
    lines.extend(watchdog(root));
    lines.extend(nmi_button(root));
    lines.extend(notifiers(root));
    lines.extend(sysrq(root));
    lines.push(after_panic(root));
    lines
}

fn loaded(root: &Root) -> Line {
    let name = "capture_kernel";
    match root.word("sys/kernel/kexec_crash_loaded").as_deref() {
        Some("1") => Line::new(name, Verdict::Ok, "a capture kernel is loaded"),
        Some(_) => {
            let disabled = root.number("proc/sys/kernel/kexec_load_disabled") == Some(1);
            let hint = match disabled {
                true => {
                    "kernel.kexec_load_disabled is 1, so none can be loaded until the next boot"
                }
                false => "start kdump-tools.service or kdump.service, or load one by `kexec -p`",
            };
            Line::new(
                name,
                Verdict::Failure,
                format!("no capture kernel is loaded: {hint}"),
            )
        }
        None => Line::new(
            name,
            Verdict::Failure,
            "this kernel has no crash dumps: /sys/kernel/kexec_crash_loaded is missing \
             (CONFIG_CRASH_DUMP, CONFIG_KEXEC)",
        ),
    }
}

fn triggered(root: &Root, trigger: &Trigger) -> Option<Line> {
    let value = root.number(trigger.file)?;
    let (verdict, text) = match value {
        0 => (
            trigger.without,
            format!(
                "0: {} gives no dump unless a panic follows; set by `sysctl kernel.{}=1`",
                trigger.failure, trigger.name
            ),
        ),
        value => (
            Verdict::Ok,
            format!("{value}: {} gives a dump", trigger.failure),
        ),
    };
    Some(Line::new(trigger.name, verdict, text))
}

fn watchdog(root: &Root) -> Option<Line> {
    let value = root.number("proc/sys/kernel/nmi_watchdog")?;
    let panics = root.number("proc/sys/kernel/hardlockup_panic").unwrap_or(0) != 0;
    Some(match value {
        0 if panics => Line::new(
            "nmi_watchdog",
            Verdict::Warning,
            "0: hard lockups are not noticed, so hardlockup_panic has no effect; set \
             kernel.nmi_watchdog=1 (virtual machines may have no such watchdog)",
        ),
        0 => Line::new(
            "nmi_watchdog",
            Verdict::Note,
            "0: hard lockups are not noticed",
        ),
        _ => Line::new("nmi_watchdog", Verdict::Ok, "1: hard lockups are noticed"),
    })
}

/// The NMI button, or `virsh inject-nmi`, or a management controller's "diagnostic interrupt".
fn nmi_button(root: &Root) -> Option<Line> {
    let files = [
        "proc/sys/kernel/unknown_nmi_panic",
        "proc/sys/kernel/panic_on_unrecovered_nmi",
        "proc/sys/kernel/panic_on_io_nmi",
    ];
    let values = files.map(|file| root.number(file));
    values.iter().any(Option::is_some).then_some(())?;
    Some(match values.iter().flatten().any(|value| *value != 0) {
        true => Line::new("nmi", Verdict::Ok, "the NMI button gives a dump"),
        false => Line::new(
            "nmi",
            Verdict::Note,
            "the NMI button gives no dump: a machine that hangs cannot be made to dump from \
             outside; kernel.unknown_nmi_panic=1 changes that",
        ),
    })
}

fn notifiers(root: &Root) -> Option<Line> {
    let name = "crash_kexec_post_notifiers";
    let value = root.word(&format!("sys/module/kernel/parameters/{name}"))?;
    Some(match value.as_str() {
        "Y" | "1" => Line::new(
            name,
            Verdict::Warning,
            "on: drivers' panic notifiers run before the capture kernel, and one that hangs takes \
             the dump away (systemd-pstore or the command line may have set it)",
        ),
        _ => Line::new(
            name,
            Verdict::Ok,
            "off: nothing runs before the capture kernel",
        ),
    })
}

fn sysrq(root: &Root) -> Option<Line> {
    let value = root.number("proc/sys/kernel/sysrq")?;
    Some(match value == 1 || value & SYSRQ_CRASH != 0 {
        true => Line::new(
            "sysrq",
            Verdict::Ok,
            format!("{value}: Alt-SysRq-c gives a dump"),
        ),
        false => Line::new(
            "sysrq",
            Verdict::Note,
            format!("{value}: Alt-SysRq-c is off; `echo c >/proc/sysrq-trigger` works for root"),
        ),
    })
}

/// What happens if the capture kernel cannot be started.
fn after_panic(root: &Root) -> Line {
    let seconds = root.word("proc/sys/kernel/panic");
    match seconds.as_deref().map(str::parse::<i64>) {
        Some(Ok(0)) | None => Line::new(
            "panic",
            Verdict::Note,
            "0: if the capture kernel does not start, the machine stays down; kernel.panic=60 \
             reboots it",
        ),
        Some(Ok(seconds)) => Line::new(
            "panic",
            Verdict::Ok,
            format!("{seconds}: the machine reboots even if the capture kernel does not start"),
        ),
        Some(Err(_)) => Line::new("panic", Verdict::Note, "kernel.panic is not a number"),
    }
}
