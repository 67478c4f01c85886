//! Signatures of logs: what is named, who is blamed, and what is never guessed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use bigiron_inspect::Signature;
use proptest::prelude::*;

fn signature(log: &str) -> Option<Signature> {
    Signature::of_text(&mut log.as_bytes()).unwrap()
}

fn of(log: &str) -> Signature {
    signature(log).unwrap()
}

/// A fault as x86-64 reports it, with the functions of its stack.
fn fault(first: &str, calls: &[&str]) -> String {
    let callers: String = calls[1..]
        .iter()
        .map(|call| format!(" {call}+0x12/0x340\n"))
        .collect();
    format!(
        "{first}\n\
         Oops: 0002 [#1] PREEMPT SMP PTI\n\
         CPU: 1 UID: 0 PID: 87 Comm: sh Not tainted 6.12.1 #1\n\
         RIP: 0010:{}+0x16/0x20\n\
         Code: 0f 1f 44 00 00\n\
         Call Trace:\n <TASK>\n \
         ? __die+0x1f/0x60\n\
         {callers} </TASK>\n\
         Modules linked in: ext4\n\
         ---[ end trace 0000000000000000 ]---\n\
         Kernel panic - not syncing: Fatal exception\n",
        calls[0]
    )
}

const NULL: &str = "BUG: kernel NULL pointer dereference, address: 0000000000000008";
const CALLS: [&str; 4] = ["crash_now", "write_it", "__x64_sys_write", "do_syscall_64"];

#[test]
fn fault_is_named_by_its_kind_and_function() {
    let found = of(&fault(NULL, &CALLS));
    assert_eq!(
        found.title,
        "BUG: unable to handle kernel NULL pointer dereference in crash_now"
    );
    assert_eq!(found.alternative_titles, ["bad-access in crash_now"]);
    assert_eq!(
        found.frames,
        ["crash_now", "write_it", "sys_write", "do_syscall_64"]
    );
    assert!(!found.corrupted);
    assert_eq!(found.fingerprint.as_ref().map(String::len), Some(32));
}

#[test]
fn fingerprint_is_of_the_kind_and_function_not_of_callers_and_numbers() {
    let first = of(&fault(NULL, &CALLS));
    let other_caller = of(&fault(NULL, &["crash_now.isra.0", "read_it", "kthread"]));
    let other_address = of(&fault(&NULL.replace('8', "0"), &CALLS));
    assert_eq!(first.fingerprint, other_caller.fingerprint);
    assert_eq!(first.fingerprint, other_address.fingerprint);
    let other_function = of(&fault(NULL, &["crash_later", "write_it"]));
    let other_kind = of(&fault("divide error: 0000 [#1] PREEMPT SMP", &CALLS));
    assert_ne!(first.fingerprint, other_function.fingerprint);
    assert_ne!(first.fingerprint, other_kind.fingerprint);
    let of_module = fault(NULL, &CALLS).replace("crash_now+0x16/0x20", "crash_now+0x16/0x20 [m]");
    let of_module = of(&of_module);
    assert_eq!(of_module.frames[0], "crash_now [m]");
    assert_ne!(first.fingerprint, of_module.fingerprint);
}

#[test]
fn functions_that_do_what_any_caller_asks_are_not_blamed() {
    let calls = [
        "memcpy_orig",
        "__list_del_entry_valid",
        "mutex_lock",
        "crash_now",
    ];
    let found = of(&fault(NULL, &calls));
    assert!(found.title.ends_with(" in crash_now"), "{}", found.title);
}

#[test]
fn system_call_has_one_name_on_all_architectures() {
    let calls = |name| fault(NULL, &[name, "invoke_syscall"]);
    let titles = [
        "__x64_sys_foo",
        "__arm64_sys_foo",
        "__ia32_sys_foo",
        "sys_foo",
    ]
    .map(|name| of(&calls(name)));
    for found in &titles {
        let all = [
            std::slice::from_ref(&found.title),
            &found.alternative_titles,
        ]
        .concat();
        assert!(
            all.iter().any(|title| title == "bad-access in sys_foo"),
            "{all:?}"
        );
    }
}

/// One fault, as each architecture reports it.
const ARCHITECTURES: [&str; 4] = [
    // arm64.
    "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000\n\
     Mem abort info:\n  ESR = 0x0000000096000045\n\
     Internal error: Oops: 0000000096000045 [#1] SMP\n\
     CPU: 1 PID: 87 Comm: sh Not tainted 6.1.0-arm64 #1\n\
     pstate: 60400005 (nZCv daif +PAN -UAO -TCO -DIT -SSBS BTYPE=--)\n\
     pc : crash_now+0x34/0x50\nlr : write_it+0x9c/0xb0\n\
     Call trace:\n crash_now+0x34/0x50\n write_it+0x9c/0xb0\n el0t_64_sync+0x190/0x194\n",
    // riscv64.
    "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000\n\
     Oops [#1]\nCPU: 1 PID: 87 Comm: sh Not tainted 6.12-riscv64 #1\n\
     epc : crash_now+0x34/0x50\n ra : write_it+0x9c/0xb0\n\
     epc : ffffffff8056d5a2 ra : ffffffff8056dca2 sp : ff20000000293a30\n\
     status: 0000000200000120 badaddr: 0000000000000000 cause: 000000000000000f\n\
     Call Trace:\n[<ffffffff8056d5a2>] crash_now+0x34/0x50\n[<ffffffff8056dca2>] write_it+0x9c/0xb0\n\
     [<ffffffff8056dca2>] ksys_write+0x9c/0xb0\n",
    // ppc64le.
    "BUG: Kernel NULL pointer dereference on write at 0x00000000\n\
     Faulting instruction address: 0xc00000000094f8a4\n\
     Oops: Kernel access of bad area, sig: 11 [#1]\n\
     NIP [c00000000094f8a4] crash_now+0x34/0x50\nLR [c000000000950a40] write_it+0x9c/0xb0\n\
     Call Trace:\n[c000000003437a80] [c00000000094f8a4] crash_now+0x34/0x50\n\
     [c000000003437a90] [c000000000950a40] write_it+0x9c/0xb0\n\
     --- interrupt: c00 at 0x7fff9c0e1b24\n",
    // s390x.
    "Unable to handle kernel pointer dereference in virtual kernel address space\n\
     Failing address: 0000000000000000 TEID: 0000000000000483\n\
     Oops: 0004 ilc:3 [#1] SMP\nCPU: 1 PID: 87 Comm: sh Not tainted 6.1.0-s390x #1\n\
     Krnl PSW : 0704c00180000000 00000000008a54e4 (crash_now+0x34/0x50)\n\
     Call Trace:\n [<00000000008a54e4>] crash_now+0x34/0x50\n\
     ([<00000000008a5c1e>] write_it+0x9c/0xb0)\nLast Breaking-Event-Address:\n",
];

#[test]
fn one_fault_has_one_signature_on_every_architecture() {
    let x86 = of(&fault(NULL, &CALLS));
    for log in ARCHITECTURES {
        let found = of(log);
        assert_eq!(found.title, x86.title, "{log}");
        assert_eq!(found.fingerprint, x86.fingerprint, "{log}");
        assert_eq!(found.frames[0], "crash_now");
    }
}

#[test]
fn signature_does_not_depend_on_how_the_log_came_here() {
    let log = fault(NULL, &CALLS);
    let expected = of(&log);
    let with = |prefix: &dyn Fn(usize) -> String| {
        let lines = log.lines().enumerate();
        let lines = lines.map(|(index, line)| format!("{}{line}\r\n", prefix(index)));
        of(&lines.collect::<String>())
    };
    let ways: [&dyn Fn(usize) -> String; 7] = [
        &|index| format!("[   12.{index:06}] "),
        &|index| format!("<4>[   12.{index:06}] "),
        &|index| format!("[   12.{index:06}][   T87] "),
        &|index| format!("4,{index},12000000,-,caller=T87;"),
        &|_| "Nov 24 16:33:32 host kernel: ".to_owned(),
        &|_| "2026-11-24T16:33:32.123456+01:00 host kernel: ".to_owned(),
        &|_| "[Tue Nov 24 16:33:32 2026] ".to_owned(),
    ];
    for way in ways {
        assert_eq!(with(way), expected, "{}", way(1));
    }
}

#[test]
fn reports_that_are_mixed_are_separated_by_their_writers() {
    let (first, second) = (
        fault(NULL, &CALLS),
        fault("kernel BUG at mm/slub.c:12!", &["other", "kthread"]),
    );
    let of_task = |pid: u32, line: &str| format!("[   12.000001][ {}{pid}] {line}\n", 'T');
    let mixed: String = first
        .lines()
        .zip(second.lines())
        .map(|(one, other)| of_task(87, one) + &of_task(2, other))
        .collect();
    assert_eq!(of(&mixed), of(&first));
}

#[test]
fn report_without_a_usable_stack_is_corrupted_and_blames_nobody() {
    for log in [
        format!("{NULL}\nOops: 0002 [#1]\n"),
        format!("{NULL}\nRIP: 0010:0x0\nCall Trace:\n <TASK>\n </TASK>\n"),
        "Kernel panic - not syncing: Fatal exception\n".to_owned(),
        "BUG: KASAN: use-after-free in foo+0x1/0x2\n".to_owned(),
    ] {
        let found = of(&log);
        assert!(found.corrupted, "{log}");
        assert_eq!(found.fingerprint, None);
    }
    let cut = of(&format!("{NULL}\n"));
    assert!(cut.title.ends_with(" in corrupted"), "{}", cut.title);
}

#[test]
fn kinds_are_named() {
    let trace = "Call Trace:\n <TASK>\n dump_stack_lvl+0x5e/0x80\n who+0x12/0x34\n caller+0x1/0x2\n \
                 do_syscall_64+0x59/0xc0\n </TASK>\n";
    let hung = "task:sh state:D stack:0 pid:12\nCall Trace:\n __schedule+0x1/0x2\n schedule+0x1/0x2\n \
                schedule_preempt_disabled+0x1/0x2\n __mutex_lock.constprop.0+0x1/0x2\n who+0x1/0x2\n";
    for (log, title) in [
        (
            format!("BUG: KASAN: slab-use-after-free in who+0x1/0x2\nWrite of size 8 at addr ffff88 by task sh/1\n{trace}"),
            "KASAN: slab-use-after-free Write in who",
        ),
        (
            format!("WARNING: CPU: 1 PID: 12 at lib/refcount.c:28 refcount_warn_saturate+0xba/0x110\nRIP: 0010:refcount_warn_saturate+0xba/0x110\n{trace}"),
            "WARNING: refcount bug in who",
        ),
        (
            format!("WARNING: CPU: 1 PID: 12 at fs/x.c:28 who+0xba/0x110 [x]\nRIP: 0010:who+0xba/0x110 [x]\n{trace}"),
            "WARNING in who",
        ),
        (
            format!("kernel BUG at fs/x.c:12!\nRIP: 0010:who+0x1/0x2\n{trace}"),
            "kernel BUG in who",
        ),
        (
            format!("INFO: task sh:12 blocked for more than 120 seconds.\n{hung}"),
            "INFO: task hung in who",
        ),
        (
            format!("watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [sh:12]\nRIP: 0010:loop_here+0x1/0x2\n{trace}"),
            "BUG: soft lockup in caller",
        ),
        (
            format!("watchdog: Watchdog detected hard LOCKUP on cpu 1\nRIP: 0010:loop_here+0x1/0x2\n{trace}"),
            "BUG: hard lockup in caller",
        ),
        (
            "rcu: INFO: rcu_preempt self-detected stall on CPU\nCall Trace:\n <IRQ>\n asm_sysvec_apic_timer_interrupt+0x1/0x2\n\
             RIP: 0010:loop_here+0x1/0x2\n who+0x1/0x2\n vfs_write+0x1/0x2\n"
                .to_owned(),
            "INFO: rcu detected stall in who",
        ),
        (
            format!("rcu: INFO: rcu_preempt self-detected stall on CPU\nrcu: \t1-....: (5249 ticks this GP)\nRIP: 0010:loop_here+0x1/0x2\n{trace}"),
            "INFO: rcu detected stall in caller",
        ),
        (
            format!("rcu: INFO: rcu_preempt self-detected stall on CPU\nrcu: rcu_preempt kthread starved for 1246 jiffies! g-859\n\
                Call Trace:\n <TASK>\n __schedule+0x1/0x2\n rcu_gp_kthread+0x1/0x2\nrcu: Stack dump where RCU GP kthread last ran:\n\
                RIP: 0010:other+0x1/0x2\nCall Trace:\n <TASK>\n another+0x1/0x2\nRIP: 0010:loop_here+0x1/0x2\n{trace}"),
            "INFO: rcu detected stall in caller",
        ),
        (
            format!("WARNING: possible recursive locking detected\nsh/12 is trying to acquire lock:\nffff88 (&a){{+.+.}}-{{3:3}}, at: who+0x1/0x2\n{trace}"),
            "possible deadlock in who",
        ),
        (
            format!("general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] PREEMPT SMP\nRIP: 0010:who+0x1/0x2\n{trace}"),
            "general protection fault in who",
        ),
        (
            format!("BUG: KFENCE: use-after-free read in who+0x1/0x2\n\nUse-after-free read at 0xffff88 (in kfence-#12):\n who+0x1/0x2\n{trace}"),
            "KFENCE: use-after-free read in who",
        ),
        (
            format!("UBSAN: shift-out-of-bounds in fs/x.c:12:34\n{trace}"),
            "UBSAN: shift-out-of-bounds in who",
        ),
        (
            "BUG: KCSAN: data-race in who / other\n".to_owned(),
            "KCSAN: data-race in who / other",
        ),
        (
            format!("Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled\n{trace}"),
            "kernel panic: Out of memory: compulsory panic_on_oom is enabled",
        ),
        (
            format!("Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: who+0x1/0x2\n{trace}"),
            "kernel panic: stack is corrupted in who",
        ),
        (
            "traps: PANIC: double fault, error_code: 0x0\nRIP: 0010:who+0x1/0x2\n".to_owned() + trace,
            "PANIC: double fault in who",
        ),
        (
            format!("BUG: TASK stack guard page was hit at 0000000012345678\nRIP: 0010:deep+0x1/0x2\n{trace}"),
            "BUG: stack guard page was hit in caller",
        ),
        (
            "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 0: b200000000000000\n".to_owned(),
            "machine check exception",
        ),
        (
            "sysrq: Trigger a crash\nKernel panic - not syncing: sysrq triggered crash\n".to_owned(),
            "kernel panic: sysrq triggered crash",
        ),
        (
            "BUG: workqueue lockup - pool cpus=1 node=0 flags=0x0 nice=0 stuck for 37s!\n".to_owned(),
            "BUG: workqueue lockup",
        ),
        (
            "specification exception: 0006 ilc:3 [#1] SMP\nKrnl PSW : 0704c00180000000 00000000008a54e4 (who+0x34/0x50)\n".to_owned() + trace,
            "specification exception in who",
        ),
    ] {
        let found = of(&log);
        assert_eq!(found.title, title, "{log}");
        assert!(!found.corrupted, "{log}");
    }
}

#[test]
fn tasks_that_wait_for_one_lock_are_one_crash() {
    let hung = |caller: &str| {
        of(&format!(
            "INFO: task sh:12 blocked for more than 120 seconds.\nCall Trace:\n schedule+0x1/0x2\n \
             __mutex_lock+0x1/0x2\n rtnl_lock+0x1/0x2\n {caller}+0x1/0x2\n ksys_ioctl+0x1/0x2\n"
        ))
    };
    assert_eq!(hung("one").title, "INFO: task hung in rtnl_lock");
    assert_eq!(hung("one").fingerprint, hung("other").fingerprint);
}

#[test]
fn thread_is_named_by_what_it_runs_even_if_that_waits() {
    let hung = |calls: &[&str]| {
        let calls: String = calls
            .iter()
            .map(|call| format!(" {call}+0x12/0x340\n"))
            .collect();
        of(&format!(
            "INFO: task flusher:87 blocked for more than 120 seconds.\n      \
             Not tainted 6.12.1 #1\n\
             task:flusher state:D stack:0 pid:87 tgid:87 ppid:2 flags:0x00004000\n\
             Call Trace:\n <TASK>\n{calls} </TASK>\n"
        ))
    };
    let waits = hung(&[
        "__schedule",
        "schedule",
        "wait_for_completion",
        "wait_for_disk",
        "kthread",
        "ret_from_fork",
    ]);
    assert_eq!(waits.title, "INFO: task hung in wait_for_disk");
    let locks = hung(&[
        "__schedule",
        "schedule",
        "flush_all",
        "kthread",
        "ret_from_fork",
    ]);
    assert_eq!(locks.title, "INFO: task hung in flush_all");
}

#[test]
fn warning_is_the_crash_only_if_it_came_just_before() {
    let at = |seconds: u32, text: &str| -> String {
        let stamp = |line| format!("[{seconds:5}.000000] {line}\n");
        text.lines().map(stamp).collect()
    };
    let warning = "WARNING: CPU: 1 PID: 12 at fs/x.c:28 early+0xba/0x110\nRIP: 0010:early+0x1/0x2\n\
                   Call Trace:\n early+0x1/0x2\n caller+0x1/0x2\n a+0x1/0x2\n";
    let fault = fault(NULL, &CALLS);
    let just_before = of(&(at(100, warning) + &at(101, &fault)));
    assert_eq!(just_before.title, "WARNING in early");
    let long_before = of(&(at(100, warning) + &at(5000, &fault)));
    assert!(
        long_before.title.ends_with(" in crash_now"),
        "{}",
        long_before.title
    );
}

#[test]
fn log_without_a_crash_has_no_signature() {
    for log in [
        "",
        "[    0.000000] Linux version 6.1\n[    1.000000] CPU: 1 PID: 1 Comm: x\n",
        "Nov 24 16:33:32 host sshd[12]: BUG: not of the kernel\n",
        "[    1.0] EXT4-fs (loop1): INFO: recovery required on readonly filesystem\n",
        "mce: [Hardware Error]: Machine check events logged\n",
        "(XEN) ACPI: SLEEP INFO: pm1x_cnt[1:604,1:0], pm1x_evt[1:600,1:0]\n",
    ] {
        assert_eq!(signature(log), None, "{log}");
    }
}

#[test]
fn endless_report_is_bounded() {
    let many = " deep+0x1/0x2\n".repeat(200_000);
    let found = of(&format!("{}{many}", fault(NULL, &CALLS)));
    assert!(found.frames.len() <= 16);
    let long = "BUG: ".to_owned() + &"x".repeat(1 << 20);
    assert!(of(&long).title.len() <= 120);
}

/// Words of reports, out of which hostile logs are made.
const WORDS: [&str; 24] = [
    "BUG: ",
    "KASAN: ",
    "WARNING: ",
    "INFO: ",
    "task ",
    "blocked for more than 9 seconds",
    "[ 1.5] ",
    "[ 1.5][ T1] ",
    "<6>",
    "Call Trace:",
    "RIP: 0010:",
    "f+0x1/0x2",
    " g.isra.0+0x1/0x2 [m]",
    "\n",
    "\r\n",
    "[<ffffffff81>] ",
    "(f) from ",
    "at: ",
    "in ",
    " at mm/a.c:1 ",
    "Kernel panic - not syncing: ",
    "Write of size 8",
    "ä\u{202e}",
    "{*#(",
];

proptest! {
    #[test]
    fn any_bytes_have_a_bounded_printable_signature_or_none(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        check(&bytes);
    }

    #[test]
    fn any_words_of_reports_have_a_bounded_printable_signature_or_none(
        words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..200)
    ) {
        check(words.concat().as_bytes());
    }
}

fn check(bytes: &[u8]) {
    let Some(found) = Signature::of_text(&mut &bytes[..]).unwrap() else {
        return;
    };
    assert!(found.frames.len() <= 16);
    assert_eq!(found.fingerprint.is_none(), found.corrupted);
    for title in std::iter::once(&found.title).chain(&found.alternative_titles) {
        assert!(title.len() <= 120);
        assert!(title.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    }
}
