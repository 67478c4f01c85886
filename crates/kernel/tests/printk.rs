//! The kernel log, in all forms, against logs whose every record is known.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use bigiron_format::VirtAddr;
use bigiron_kernel::KernelMemory;
use bigiron_kernel::printk::{Caller, Log, RecordText, TextStyle};
use bigiron_kernel::{IoMethod, Kernel, Source};
use bigiron_synth::{ElfShape, KernelLog, LogForm, LogRecord, Synth, Written};
use common::log_memory::{FORMS, LogMemory};
use proptest::prelude::*;

fn text(memory: &LogMemory, since_clear: bool) -> String {
    let mut out = Vec::new();
    let summary = Log::open(memory)
        .unwrap()
        .write_text(&mut out, since_clear)
        .unwrap();
    assert_eq!(summary.warnings(), Vec::<String>::new());
    String::from_utf8(out).unwrap()
}

fn expected(log: &KernelLog, since_clear: bool) -> String {
    String::from_utf8_lossy(&log.expected_text(since_clear)).into_owned()
}

#[test]
fn wrapped_log_equals_makedumpfile() {
    for form in FORMS {
        for count in [0, 1, 2, 30, 61, 300, 1000] {
            let log = KernelLog::new(form).with_records(count);
            let memory = LogMemory::new(&log);
            // Only makedumpfile's escapes make old text valid UTF-8.
            let mut out = Vec::new();
            let opened = Log::open(&memory).unwrap();
            opened.write_text(&mut out, false).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&out),
                expected(&log, false),
                "{form:?}, {count} records"
            );
        }
    }
}

#[test]
fn log_is_read_through_the_page_tables_of_a_dump() {
    for (form, levels) in [("lockless", 5), ("records", 4), ("text", 4)] {
        let machine = format!(
            "kernel 5.10 levels={levels} kaslr=0x1e00000\nram 0x0-0xfff\n\
             log {form} n=300 text_bits=13"
        );
        let machine = Synth::from_text(&machine).unwrap();
        let source = Source::from_bytes(Box::new(machine.elf(&ElfShape::vmcore())), "dump".into());
        let source = source.unwrap();
        let kernel = Kernel::find(&source, None, IoMethod::Read, 16).unwrap();
        let mut out = Vec::new();
        let log = Log::open(&kernel).unwrap();
        log.write_text(&mut out, false).unwrap();
        let right = machine.spec().log.as_ref().unwrap().expected_text(false);
        assert!(!right.is_empty());
        assert_eq!(
            String::from_utf8_lossy(&out),
            String::from_utf8_lossy(&right)
        );
    }
}

#[test]
fn records_before_the_last_clear_are_omitted_on_request() {
    for form in FORMS {
        for cleared in [0, 50, 59, 60] {
            let mut log = KernelLog::new(form).with_records(60);
            log.text_bits = 13;
            log.cleared = cleared;
            let mut out = Vec::new();
            let memory = LogMemory::new(&log);
            let opened = Log::open(&memory).unwrap();
            opened.write_text(&mut out, true).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&out),
                expected(&log, true),
                "{form:?}, cleared at {cleared}"
            );
        }
    }
}

#[test]
fn before_5_13_the_clear_index_is_a_plain_number() {
    let mut log = KernelLog::new(LogForm::Lockless).with_records(20);
    log.cleared = 15;
    let mut memory = LogMemory::new(&log);
    memory.set("SIZE(latched_seq)", None);
    memory.set("OFFSET(latched_seq.val)", None);
    let clear_seq = memory.symbol("clear_seq");
    memory.write(clear_seq, &15_u64.to_le_bytes());
    assert_eq!(text(&memory, true), expected(&log, true));
}

#[test]
fn overwritten_clear_position_omits_no_record() {
    let log = KernelLog::new(LogForm::Records).with_records(300);
    let mut memory = LogMemory::new(&log);
    let next = memory.u32_at("log_next_idx");
    let clear = memory.symbol("clear_idx");
    // In the middle of a record.
    memory.write(clear, &(next - 4).to_le_bytes());
    assert_eq!(text(&memory, true), expected(&log, false));
}

#[test]
fn all_fields_of_a_record_are_read() {
    let log = KernelLog::new(LogForm::Lockless).with_records(30);
    let memory = LogMemory::new(&log);
    let mut seqs = Vec::new();
    let summary = Log::open(&memory)
        .unwrap()
        .for_each(false, &mut |record| {
            let seq = record.seq.unwrap() as usize;
            seqs.push(seq);
            let right = &log.records[seq];
            assert_eq!(record.ts_nsec, Some(right.ts_nsec));
            assert_eq!(record.level, Some(right.level));
            assert_eq!(record.facility, Some(right.facility));
            assert_eq!(record.caller, Some(Caller(right.caller)));
            let device = record.device.map(|device| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                (text(device.subsystem), text(device.device))
            });
            assert_eq!(device, right.device);
            match right.written {
                Written::EmptyLine => assert_eq!(record.text, RecordText::EmptyLine),
                Written::NoRoom => assert_eq!(record.text, RecordText::Absent),
                _ => assert_eq!(record.text, RecordText::Bytes(&right.text)),
            }
            Ok(())
        })
        .unwrap();
    let reserved = |index: &usize| log.records[*index].written == Written::Reserved;
    let right: Vec<_> = (0..30).filter(|index| !reserved(index)).collect();
    assert_eq!(seqs, right);
    assert_eq!(summary.records, right.len() as u64);
    assert_eq!(summary.unfinished, 30 - right.len() as u64);
}

#[test]
fn reused_descriptor_is_skipped() {
    let log = KernelLog::new(LogForm::Lockless).with_records(10);
    let mut memory = LogMemory::new(&log);
    let descriptor = memory.u64_at("prb") - 64 + 256 + 5 * 24;
    let mut state = [0; 8];
    let (from, to) = (VirtAddr(descriptor), &mut state);
    memory.read("a descriptor", from, to).unwrap();
    let other = u64::from_le_bytes(state) - 128;
    memory.write(descriptor, &other.to_le_bytes());
    let said = text(&memory, false);
    assert!(said.contains("record 4:") && said.contains("record 6:"));
    assert!(!said.contains("record 5:"), "{said}");
}

#[test]
fn record_levels_are_read_if_the_layout_is_known() {
    for (form, known) in [(LogForm::Records, true), (LogForm::OldRecords, false)] {
        let log = KernelLog::new(form).with_records(9);
        let memory = LogMemory::new(&log);
        let mut index = 0;
        let opened = Log::open(&memory).unwrap();
        let mut check = |record: &bigiron_kernel::printk::Record<'_>| {
            let right = &log.records[index];
            assert_eq!(record.level, known.then_some(right.level));
            assert_eq!(record.facility, known.then_some(right.facility));
            index += 1;
            Ok(())
        };
        opened.for_each(false, &mut check).unwrap();
        assert_eq!(index, 9);
    }
}

#[test]
fn character_logs_are_split_into_lines() {
    let mut log = KernelLog::new(LogForm::Text);
    log.records.push(LogRecord::new(1_234_567_000, b"one\ntwo"));
    let mut memory = LogMemory::new(&log);
    let mut lines = Vec::new();
    let mut collect = |memory: &LogMemory| {
        lines.clear();
        let opened = Log::open(memory).unwrap();
        opened
            .for_each(false, &mut |record| {
                let text = String::from_utf8_lossy(record.text.bytes()).into_owned();
                lines.push((record.level, record.facility, record.ts_nsec, text));
                Ok(())
            })
            .unwrap();
        lines.clone()
    };
    let line = |text: &str| (Some(6), Some(0), Some(1_234_567_000), text.to_owned());
    assert_eq!(collect(&memory), [line("one"), line("two")]);
    // `<6>[    1.` becomes `<30>    1.`: no time, so that it is text.
    let log_buf = memory.u64_at("log_buf");
    memory.write(log_buf, b"<30>");
    let text = "    1.234567] one".to_owned();
    assert_eq!(collect(&memory)[0], (Some(6), Some(3), None, text));
    memory.write(log_buf, b"<9999999999999>");
    assert_eq!(collect(&memory)[0].0, None);
}

#[test]
fn styles_equal_those_of_dmesg_and_makedumpfile() {
    let mut log = KernelLog::new(LogForm::Lockless);
    let mut record = LogRecord::new(12_000_345_000, b"a\nb\xff\x01");
    record.level = 4;
    record.caller = 0x8000_0003;
    log.records.push(record.clone());
    record.written = Written::EmptyLine;
    log.records.push(record);
    let memory = LogMemory::new(&log);
    let styled = |style| {
        let mut out = Vec::new();
        let opened = Log::open(&memory).unwrap();
        opened.write_styled(&mut out, false, style).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        styled(TextStyle::MAKEDUMPFILE),
        "[   12.000345] a\n               b\\xffffffff\\x01\n"
    );
    assert_eq!(
        styled(TextStyle::VMCORE_DMESG),
        "[   12.000345] a\nb\\xff\\x01\n[   12.000345] \n"
    );
    let decoded = TextStyle {
        level_names: true,
        caller: true,
        indent: false,
        ..TextStyle::PLAIN
    };
    assert_eq!(
        styled(decoded),
        "kern  :warn  : [   12.000345] [    C3] a\nb\\xff\\x01\n"
    );
}

#[test]
fn lost_page_loses_only_its_own_records() {
    for form in [LogForm::Lockless, LogForm::Text] {
        let mut log = KernelLog::new(form).with_records(400);
        log.text_bits = 14;
        log.descriptor_bits = 9;
        let mut memory = LogMemory::new(&log);
        let whole = expected(&log, false).lines().count();
        memory.lose_page(memory.pages() - 2);
        let mut out = Vec::new();
        let opened = Log::open(&memory).unwrap();
        let summary = opened.write_text(&mut out, false).unwrap();
        let left = String::from_utf8_lossy(&out).lines().count();
        assert!(
            left > whole / 2 && left < whole - 10,
            "{form:?}: {left} of {whole} lines"
        );
        let warnings = summary.warnings();
        assert!(
            warnings.len() == 1 && warnings[0].contains("could not be read"),
            "{warnings:?}"
        );
    }
}

#[test]
fn missing_log_keys_are_named_by_the_error() {
    let log = KernelLog::new(LogForm::Lockless).with_records(3);
    let mut memory = LogMemory::new(&log);
    memory.set("OFFSET(printk_info.ts_nsec)", None);
    let error = Log::open(&memory).err().unwrap().to_string();
    assert!(error.contains("OFFSET(printk_info.ts_nsec)"), "{error}");
    memory.set("SYMBOL(prb)", None);
    let error = Log::open(&memory).err().unwrap().to_string();
    assert!(error.contains("SYMBOL(prb)"), "{error}");
}

fn record() -> impl Strategy<Value = LogRecord> {
    let written = prop_oneof![
        6 => Just(Written::Finalized),
        1 => Just(Written::Committed),
        1 => Just(Written::Reserved),
        1 => Just(Written::EmptyLine),
        1 => Just(Written::NoRoom),
    ];
    let text = proptest::collection::vec(any::<u8>(), 0..200);
    (any::<u64>(), text, 0..8_u8, written).prop_map(|(ts_nsec, text, level, written)| {
        let mut record = LogRecord::new(ts_nsec, &text);
        record.level = level;
        record.written = written;
        record
    })
}

proptest! {
    #[test]
    fn any_log_equals_makedumpfile(
        form in prop_oneof![
            Just(LogForm::Lockless),
            Just(LogForm::LocklessToTheEnd),
            Just(LogForm::Records),
            Just(LogForm::OldRecords),
        ],
        text_bits in 9..13_u32,
        descriptor_bits in 1..7_u32,
        mut records in proptest::collection::vec(record(), 0..150),
    ) {
        if !matches!(form, LogForm::Lockless | LogForm::LocklessToTheEnd) {
            records.iter_mut().for_each(|record| record.written = Written::Finalized);
        }
        let log = KernelLog { form, text_bits, descriptor_bits, records, cleared: 0 };
        let memory = LogMemory::new(&log);
        prop_assert_eq!(text(&memory, false), expected(&log, false));
    }
}
