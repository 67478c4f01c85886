//! `bigiron info`: facts about a dump, and the cause of the crash.

use std::fs;
use std::path::Path;

use crate::common::sample;
use crate::common::{Lab, arg, run, run_with_input};
use bigiron_format::elf::LoadSegment;
use bigiron_kernel::symbols::kallsyms;
use bigiron_kernel::{IoMethod, Kernel, Source};
use bigiron_synth::{ElfShape, KernelLog, LogForm, LogRecord, Synth};
use serde_json::Value;

const OOPS: [&str; 12] = [
    "Linux version 5.10",
    "BUG: unable to handle page fault for address: ffffdead00000000",
    "Oops: 0000 [#1] SMP",
    "CPU: 3 PID: 4711 Comm: a worse \x1b[31m name Tainted: G",
    "RIP: 0010:take_a_page+0x10/0x40",
    "Call Trace:",
    " ? page_fault_oops+0xd2/0x2b0",
    " hold_the_page+0x1/0x2",
    " let_it_go+0x3/0x4",
    "RIP: 0033:0x47b7a0",
    "---[ end trace 0000000000000000 ]---",
    "Kernel panic - not syncing: Fatal exception",
];

/// Creates a vmcore whose log has these lines, one second apart.
fn vmcore(directory: &Path, lines: &[&str]) -> String {
    let text = "kernel 5.10\nram 0x0-0x9f 0x100-0xfff\npages 0x200 free order=9\n";
    let mut spec = Synth::from_text(text).unwrap().spec().clone();
    let mut log = KernelLog::new(LogForm::Lockless);
    for (second, line) in (1..).zip(lines) {
        log.records
            .push(LogRecord::new(second * 100_000_000, line.as_bytes()));
    }
    spec.log = Some(log);
    let path = directory.join("vmcore");
    fs::write(
        &path,
        Synth::from_spec(spec).unwrap().elf(&ElfShape::vmcore()),
    )
    .unwrap();
    arg(&path).to_owned()
}

fn json(dump: &str) -> Value {
    serde_json::from_slice(&run(&["info", "--json", dump]).code(0).stdout).unwrap()
}

/// [`OOPS`] as a text log.
fn text_log() -> String {
    let lines = (1..).zip(OOPS);
    let lines = lines.map(|(second, line)| format!("[{second:5}.000000] {line}\n"));
    lines.collect()
}

#[test]
fn text_log_has_the_signature_of_the_dump() {
    let directory = tempfile::tempdir().unwrap();
    let of_dump = json(&vmcore(directory.path(), &OOPS));
    let signature = &of_dump["signature"];
    let title = "BUG: unable to handle kernel paging request in take_a_page";
    assert_eq!(signature["title"], title);
    assert_eq!(
        signature["frames"],
        serde_json::json!(["take_a_page", "hold_the_page", "let_it_go"])
    );
    assert_eq!(signature["corrupted"], false);
    let file = directory.path().join("console.txt");
    fs::write(&file, text_log()).unwrap();
    let words = ["info", "--json", "--log", arg(&file)];
    let of_file: Value = serde_json::from_slice(&run(&words).code(0).stdout).unwrap();
    assert_eq!(&of_file["signature"], signature);
    let words = ["info", "--log", "-"];
    let shown = run_with_input(&words, text_log().as_bytes()).code(0).text();
    assert!(shown.contains(&format!("crash     {title}\n")), "{shown}");
}

#[test]
fn log_without_a_crash_has_a_null_signature_and_a_missing_one_is_an_error() {
    let calm = b"[    0.000000] Linux version 6.1\n";
    let said = run_with_input(&["info", "--json", "--log", "-"], calm).code(0);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said, serde_json::json!({ "signature": null }));
    run(&["info", "--log", "/none/such"])
        .code(1)
        .says(&["/none/such", "cannot read it"]);
    run(&["info", "--log", "log", "vmcore"]).code(2);
    run(&["info", "--log", "log", "--tasks"]).code(2);
    run(&["info"]).code(2);
}

#[test]
fn cause_of_the_crash_is_reported_for_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let source = vmcore(directory.path(), &OOPS);
    let shown = run(&["info", &source]).code(0).text();
    for line in [
        "dump      ELF core, not compressed, dump level 0, complete",
        "crashed   1.2 s after boot",
        "panic     Fatal exception",
        "fault     BUG: unable to handle page fault for address: ffffdead00000000",
        "task      a worse \\u001b[31m name (PID 4711) on CPU 3",
        "at        take_a_page+0x10/0x40",
        "trace     hold_the_page+0x1/0x2",
        "          let_it_go+0x3/0x4",
        "memory    15.6 MiB, of which 15.6 MiB are in the dump",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(
        !shown.contains("page_fault_oops") && !shown.contains("0x47b7a0"),
        "{shown}"
    );
    let of_source = json(&source);
    assert_eq!(
        of_source["crash"]["cause"]["trace"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    for format in ["kdump", "elf", "flattened", "vmdump"] {
        let dump = arg(&directory.path().join(format)).to_owned();
        run(&["dump", "-q", "-d", "31", "-f", format, &source, &dump]).code(0);
        let found = json(&dump);
        for part in ["crash", "kernel", "cpus"] {
            assert_eq!(found[part], of_source[part], "{format}, {part}");
        }
        assert_eq!(found["dump"]["complete"], true);
        let codecs: &[&str] = if format == "elf" { &[] } else { &["zstd"] };
        assert_eq!(found["dump"]["codecs"], serde_json::json!(codecs));
        let (pages, there) = (&found["memory"]["pages"], &found["memory"]["pages_in_dump"]);
        assert_eq!(pages, &of_source["memory"]["pages"], "{format}");
        assert!(
            there.as_u64().unwrap() < pages.as_u64().unwrap(),
            "{format}"
        );
    }
}

#[test]
fn kernel_without_a_crash_is_reported_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let source = vmcore(directory.path(), &OOPS[..1]);
    let shown = run(&["info", &source]).code(0).text();
    assert!(
        shown.contains("the log has no panic and no fault"),
        "{shown}"
    );
    assert!(!shown.contains("crashed"), "{shown}");
    assert_eq!(json(&source)["crash"].get("panic"), None);
}

#[test]
fn missing_information_is_reported_without_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let source = vmcore(directory.path(), &OOPS);
    let whole = fs::read(&source).unwrap();
    fs::write(&source, &whole[..whole.len() - 8192]).unwrap();
    let shown = run(&["info", &source]).code(0).text();
    assert!(
        shown.contains("INCOMPLETE") && shown.contains("it is truncated"),
        "{shown}"
    );
    assert!(shown.contains("Fatal exception"), "{shown}");
    fs::write(&source, &whole[..8192]).unwrap();
    let outcome = run(&["info", &source]).code(0);
    let outcome = outcome.says(&["warning: ", "the kernel log cannot be read"]);
    assert!(outcome.text().contains("not known"), "{}", outcome.text());
    fs::write(&source, &whole[..100]).unwrap();
    run(&["info", &source]).code(1).says(&[&source]);
    run(&["info", arg(&directory.path().join("nothing"))]).code(1);
    run(&["info"]).code(2);
}

/// Returns the offset of a kernel variable in an ELF core.
fn variable(core: &Path, name: &str) -> usize {
    let source = Source::open(&[core.to_owned()]).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let symbols = kallsyms::read(&kernel).unwrap().unwrap();
    let address = symbols.find(name).unwrap().address;
    let physical = kernel.translate(address).unwrap().unwrap().physical.0;
    let inside =
        |segment: &&LoadSegment| physical.wrapping_sub(segment.physical.0) < segment.file_size;
    let segment = kernel.source().header_segments().iter().find(inside);
    let segment = segment.unwrap();
    (segment.file_offset + (physical - segment.physical.0)) as usize
}

/// Changes the log and panic_cpu of the sample, whose kernel did not panic, to those of a panic.
#[test]
fn panic_without_a_trace_in_the_log_is_shown_with_the_trace_of_its_stack() {
    const SAID: &[u8] = b"Linux version ";
    const PANIC: &[u8] = b"Kernel panic - not syncing: ";
    let directory = tempfile::tempdir().unwrap();
    let source = sample::unpack(directory.path());
    let shown = |options: &[&str]| run(&[&["info"], options, &[arg(&source)]].concat()).code(0);
    assert!(!shown(&[]).text().contains("do_idle"));
    assert!(shown(&["--backtrace"]).text().contains("do_idle+0x"));
    let panic_cpu = variable(&source, "panic_cpu");
    let mut bytes = fs::read(&source).unwrap();
    for at in 0..bytes.len() - PANIC.len() {
        if bytes[at] == SAID[0] && bytes[at..].starts_with(SAID) {
            bytes[at..at + PANIC.len()].copy_from_slice(PANIC);
        }
    }
    fs::write(&source, &bytes).unwrap();
    let quiet = shown(&[]).text();
    assert!(
        quiet.contains("panic     ") && !quiet.contains("do_idle"),
        "{quiet}"
    );
    assert_eq!(bytes[panic_cpu..panic_cpu + 4], [0xff; 4]);
    bytes[panic_cpu..panic_cpu + 4].fill(0);
    fs::write(&source, &bytes).unwrap();
    let by_stack = shown(&[]).text();
    assert!(
        by_stack.contains("swapper/0 (PID 0), R on CPU 0") && by_stack.contains("do_idle+0x"),
        "{by_stack}"
    );
    let found: Value = serde_json::from_slice(&shown(&["--json"]).stdout).unwrap();
    let tasks = found["backtrace"]["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 1);
    assert!(tasks[0]["frames"].as_array().unwrap().len() > 3);
}

#[test]
fn without_symbols_facts_that_need_them_are_reported_as_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let source = vmcore(directory.path(), &OOPS);
    let options = [
        "--sys",
        "--tasks",
        "--run-queues",
        "--backtrace",
        "--stacks",
        "--requests",
    ];
    let said = run(&[&["info", "--json"], &options[..], &[&source]].concat()).code(0);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    for section in [
        "system",
        "tasks",
        "run_queues",
        "backtrace",
        "stacks",
        "requests",
    ] {
        let reason = said[section]["not_known"].as_str().unwrap();
        assert!(reason.contains("kallsyms"), "{section}: {reason}");
    }
}

#[test]
fn commands_for_other_programs_convert_what_these_do_not_read() {
    let lab = Lab::new();
    let vmcore = sample::unpack(lab.path("").as_path());
    let vmdump = lab.path("vmdump");
    run(&[
        "dump",
        "-q",
        "-d",
        "31",
        "-f",
        "vmdump",
        arg(&vmcore),
        arg(&vmdump),
    ])
    .code(0);
    let lines = |tool: &str, dump: &Path| {
        let shown = run(&["info", "--symbols-for", tool, arg(dump)])
            .code(0)
            .text();
        let lines = shown.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        lines("crash", &vmcore),
        [format!("crash vmlinux {}", arg(&vmcore))]
    );
    assert_eq!(
        lines("drgn", &vmcore),
        [format!("drgn -c {} -s vmlinux", arg(&vmcore))]
    );
    let name = arg(&vmdump);
    let converts = format!("bigiron dump -d 0 -f elf {name} vmcore.elf");
    assert_eq!(
        lines("gdb", &vmdump),
        [converts, "gdb vmlinux vmcore.elf".into()]
    );
    let converts = format!("bigiron dump -d 0 -f kdump {name} vmcore.kdump");
    assert_eq!(
        lines("crash", &vmdump),
        [converts, "crash vmlinux vmcore.kdump".into()]
    );
}
