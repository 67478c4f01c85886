//! `bigiron plan`: estimates against real dumps, and verdicts of machines with faults.

use std::fs;
use std::path::Path;

use bigiron_synth::{ElfShape, Synth};
use serde_json::Value;

use crate::common::{Lab, arg, run};

/// A machine on which a crash leaves a dump.
const SOUND: [(&str, &str); 14] = [
    ("sys/kernel/kexec_crash_loaded", "1\n"),
    ("sys/kernel/kexec_crash_size", "536870912\n"),
    (
        "sys/module/kernel/parameters/crash_kexec_post_notifiers",
        "N\n",
    ),
    ("proc/sys/kernel/panic_on_oops", "1\n"),
    ("proc/sys/kernel/hung_task_panic", "0\n"),
    ("proc/sys/kernel/hardlockup_panic", "1\n"),
    ("proc/sys/kernel/nmi_watchdog", "1\n"),
    ("proc/sys/kernel/panic", "60\n"),
    ("proc/sys/kernel/sysrq", "1\n"),
    ("proc/sys/kernel/osrelease", "6.1.0\n"),
    (
        "etc/default/kdump-tools",
        "USE_KDUMP=1\nKDUMP_COREDIR=/crash\nMAKEDUMP_ARGS=\"-l -d 31\"\n",
    ),
    (
        "etc/systemd/system/multi-user.target.wants/kdump-tools.service",
        "",
    ),
    ("var/lib/kdump/initrd.img-6.1.0", "initramfs"),
    ("crash/.keep", ""),
];

/// Files of a machine below a directory.
struct Root<'a>(&'a Lab);

impl Root<'_> {
    fn sound(lab: &Lab) -> Root<'_> {
        let root = Root(lab);
        for (name, text) in SOUND {
            root.set(name, text);
        }
        root
    }

    fn set(&self, name: &str, text: &str) {
        let path = self.0.path("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.path("root").join(name)).unwrap();
    }

    /// Runs `bigiron plan --json`, which ends with `code`.
    fn plan(&self, code: i32, options: &[&str]) -> Value {
        let root = self.0.path("root");
        let words = ["plan", "--json", "--root", arg(&root)];
        let outcome = run(&[&words[..], options].concat()).code(code);
        serde_json::from_str(&outcome.text()).unwrap()
    }

    fn settings(&self, code: i32) -> Value {
        self.plan(code, &["--no-estimate"])
    }
}

/// Verdict and text of a line.
fn line<'a>(plan: &'a Value, name: &str) -> (&'a str, &'a str) {
    let lines = plan["checks"].as_array().unwrap();
    let line = lines.iter().find(|line| line["name"] == name);
    let line = line.unwrap_or_else(|| panic!("no line {name}: {plan:#}"));
    (
        line["verdict"].as_str().unwrap(),
        line["text"].as_str().unwrap(),
    )
}

/// A machine whose classes have different contents: those of a kernel, text, noise, zeros.
fn memory(lab: &Lab) -> std::path::PathBuf {
    let mut text = String::from("kernel 6.12\nram 0x0-0x9f 0x100-0x3fff\n");
    for block in 0..32 {
        let first = 0x1000 + 64 * block;
        let what = match block % 4 {
            0 => "anon n=48 fill=random:7",
            1 => "cache n=48",
            2 => "slab n=48 fill=const:65",
            _ => "free order=5",
        };
        text.push_str(&format!("pages {first:#x} {what}\n"));
    }
    lab.file(
        "memory",
        &Synth::from_text(&text).unwrap().elf(&ElfShape::vmcore()),
    )
}

#[test]
fn estimated_sizes_are_those_of_the_dumps() {
    let lab = Lab::new();
    let root = Root::sound(&lab);
    let memory = memory(&lab);
    let plan = root.plan(
        0,
        &["--memory", arg(&memory), "--options", "-d 17 -c snappy"],
    );
    let dumps = plan["estimates"]["dumps"].as_array().unwrap();
    assert_eq!(dumps.len(), 7, "that of the settings, and six others");
    assert_eq!(dumps[0]["dump_level"], 17);
    for dump in dumps {
        let level = dump["dump_level"].to_string();
        let (format, codec) = (&dump["format"], dump["compression"].as_str().unwrap());
        let options = [
            "-d",
            &level,
            "-f",
            format.as_str().unwrap(),
            "-c",
            codec,
            "-q",
        ];
        let made = lab.path("made");
        run(&[
            &["dump", "--overwrite"],
            &options[..],
            &[arg(&memory), arg(&made)],
        ]
        .concat())
        .code(0);
        let (told, size) = (
            dump["bytes"].as_u64().unwrap(),
            fs::metadata(&made).unwrap().len(),
        );
        assert!(
            told.abs_diff(size) <= size * 15 / 100,
            "{options:?}: {told}, not {size}"
        );
    }
}

#[test]
fn sound_machine_has_no_warning_and_each_fault_has_its_line() {
    let lab = Lab::new();
    let root = Root::sound(&lab);
    let sound = root.settings(0);
    assert_eq!(sound["verdict"], "note", "{sound:#}");
    assert_eq!(line(&sound, "options").0, "ok");
    assert!(line(&sound, "options").1.contains("lzo"));

    for (file, text, name, verdict, code, says) in [
        (
            "sys/kernel/kexec_crash_loaded",
            "0",
            "capture_kernel",
            "failure",
            2,
            "kexec -p",
        ),
        (
            "sys/kernel/kexec_crash_size",
            "0",
            "crashkernel",
            "failure",
            2,
            "crashkernel=",
        ),
        (
            "sys/kernel/kexec_crash_size",
            "16777216",
            "crashkernel",
            "failure",
            2,
            "too little",
        ),
        (
            "proc/sys/kernel/panic_on_oops",
            "0",
            "panic_on_oops",
            "warning",
            1,
            "sysctl",
        ),
        (
            "proc/sys/kernel/nmi_watchdog",
            "0",
            "nmi_watchdog",
            "warning",
            1,
            "not noticed",
        ),
        (
            "sys/module/kernel/parameters/crash_kexec_post_notifiers",
            "Y",
            "crash_kexec_post_notifiers",
            "warning",
            1,
            "hangs",
        ),
        (
            "etc/default/kdump-tools",
            "USE_KDUMP=0",
            "kdump_unit",
            "failure",
            2,
            "USE_KDUMP",
        ),
        (
            "etc/default/kdump-tools",
            "USE_KDUMP=1\nMAKEDUMP_ARGS=\"-d 99\"",
            "options",
            "failure",
            2,
            "MAKEDUMP_ARGS",
        ),
        (
            "etc/default/bigiron",
            "DEVICE=/dev/missing",
            "device",
            "failure",
            2,
            "/dev/missing",
        ),
    ] {
        let before = SOUND.iter().find(|(name, _)| *name == file);
        root.set(file, text);
        let plan = root.settings(code);
        let (found, shown) = line(&plan, name);
        assert_eq!(found, verdict, "{file}: {shown}");
        assert!(shown.contains(says), "{file}: {shown}");
        match before {
            Some((_, text)) => root.set(file, text),
            None => root.remove(file),
        }
    }
    root.remove("var/lib/kdump/initrd.img-6.1.0");
    assert_eq!(line(&root.settings(2), "initramfs").0, "failure");
}

#[test]
fn dump_device_is_judged_by_what_is_on_it() {
    let lab = Lab::new();
    let root = Root::sound(&lab);
    root.set(
        "etc/default/bigiron",
        "DEVICE=/dev/disk\nDIR=/crash\nCAPTURE_OPTIONS=\"-d 31\"\n",
    );
    // The image is newer than the settings in it.
    root.set("var/lib/kdump/initrd.img-6.1.0", "initramfs");
    let device = lab.path("root/dev/disk");
    fs::create_dir_all(device.parent().unwrap()).unwrap();
    let make = |bytes: u64| fs::File::create(&device).unwrap().set_len(bytes).unwrap();
    make(64 << 20);
    let plan = root.settings(1);
    assert_eq!(line(&plan, "unsaved_dump").0, "ok");
    assert_eq!(line(&plan, "save_unit").0, "warning");
    root.set(
        "etc/systemd/system/multi-user.target.wants/bigiron-save.service",
        "",
    );
    root.settings(0);

    let vmcore = lab.vmcore();
    run(&["dump", "-q", "--device", arg(vmcore), arg(&device)]).code(0);
    assert_eq!(line(&root.settings(1), "unsaved_dump").0, "warning");

    make(1 << 20);
    let memory = memory(&lab);
    let plan = root.plan(2, &["--memory", arg(&memory)]);
    let (verdict, text) = line(&plan, "device");
    assert_eq!(verdict, "failure", "{text}");
    assert!(text.contains("too little for a dump of"), "{text}");

    fs::write(&device, b"XFSB").unwrap();
    fs::File::options()
        .write(true)
        .open(&device)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let plan = root.settings(2);
    assert!(line(&plan, "device").1.contains("XFS"), "{plan:#}");
}

#[test]
fn plan_that_cannot_be_made_is_distinguished_from_a_bad_one() {
    let lab = Lab::new();
    let root = Root::sound(&lab);
    let missing = lab.path("missing");
    let plan = root.plan(3, &["--memory", arg(&missing)]);
    let reason = plan["not_estimated"].as_str().unwrap();
    assert!(reason.contains("missing"), "{reason}");
    let text = run(&["plan", "--no-estimate", "--root", arg(&lab.path("root"))])
        .code(0)
        .text();
    assert!(text.contains("failures: 0, warnings: 0"), "{text}");
    assert!(Path::new(&lab.path("root/crash/.keep")).exists());
}
