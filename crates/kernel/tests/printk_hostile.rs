//! Logs that lie: reading them ends, stays small, and says what is wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::io::Write;

use bigiron_kernel::printk::{Log, LogSummary, TextStyle};
use bigiron_kernel::{IoMethod, Kernel, Source};
use bigiron_synth::{KernelLog, LogForm, TinyKernel};
use common::log_memory::{FORMS, LogMemory};
use proptest::prelude::*;

/// More than these small logs can honestly give.
const MAX_OUTPUT: usize = 4 << 20;

/// Counts what is written, and fails if it grows without end.
#[derive(Default)]
struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        assert!(self.0 < MAX_OUTPUT, "output without end");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reads the log in all ways; an error is as good as a summary.
fn read(memory: &LogMemory) -> Result<LogSummary, String> {
    let log = Log::open(memory).map_err(|error| error.to_string())?;
    for since_clear in [true, false] {
        let style = TextStyle {
            level_names: true,
            caller: true,
            ..TextStyle::VMCORE_DMESG
        };
        let _ = log.write_styled(&mut Counter::default(), since_clear, style);
    }
    log.write_text(&mut Counter::default(), false)
        .map_err(|error| error.to_string())
}

fn memory(form: LogForm) -> LogMemory {
    LogMemory::new(&KernelLog::new(form).with_records(200))
}

/// Where the ring buffer is: `prb` points to it.
fn ring(memory: &LogMemory) -> u64 {
    memory.u64_at("prb")
}

#[test]
fn implausible_ring_sizes_are_refused() {
    for offset in [0, 48] {
        for bits in [0_u32, 32, 40, 63, 64, u32::MAX] {
            let mut memory = memory(LogForm::Lockless);
            let ring = ring(&memory);
            memory.write(ring + offset, &bits.to_le_bytes());
            let error = read(&memory).unwrap_err();
            assert!(error.contains("_bits"), "{bits} bits: {error}");
        }
    }
}

#[test]
fn ring_larger_than_memory_is_read_to_the_last_available_page() {
    for (offset, bits) in [(0, 27_u32), (48, 31)] {
        let mut memory = memory(LogForm::Lockless);
        let ring = ring(&memory);
        memory.write(ring + offset, &bits.to_le_bytes());
        let summary = read(&memory).unwrap();
        assert!(
            summary.unreadable > 0 && summary.records < 200,
            "{summary:?}"
        );
    }
}

#[test]
fn distance_from_tail_to_head_is_bounded() {
    let mut memory = memory(LogForm::Lockless);
    let (ring, count) = (ring(&memory), read(&memory).unwrap().records);
    memory.write(ring + 32, &0x1234_5678_9abc_def0_u64.to_le_bytes());
    let summary = read(&memory).unwrap();
    // The records before the head are still found.
    assert_eq!(summary.records, count);
    assert!(summary.warnings()[0].contains("incomplete"), "{summary:?}");
}

#[test]
fn records_sharing_one_text_do_not_multiply_it() {
    let mut log = KernelLog::new(LogForm::Lockless).with_records(500);
    (log.text_bits, log.descriptor_bits) = (14, 9);
    let mut memory = LogMemory::new(&log);
    let infos = ring(&memory) - 64 + 256 + 512 * 24;
    for slot in 0..512 {
        let descriptor = ring(&memory) - 64 + 256 + slot * 24;
        memory.write(descriptor + 8, &0_u64.to_le_bytes());
        memory.write(descriptor + 16, &0x3ff8_u64.to_le_bytes());
        memory.write(infos + slot * 88 + 16, &u16::MAX.to_le_bytes());
    }
    let mut out = Vec::new();
    let opened = Log::open(&memory).unwrap();
    let summary = opened.write_text(&mut out, false).unwrap();
    assert_eq!(summary.records, 1);
    assert!(summary.cut.unwrap().contains("more text"));
}

#[test]
fn records_without_length_end_the_walk() {
    // The mark of the end over and over, a header that is too small, one that
    // is too large, and a loop that never meets the end.
    for (len, next) in [(0_u16, 8_u32), (8, 4000), (u16::MAX, 4000), (16, 8)] {
        let mut memory = memory(LogForm::Records);
        let (log_buf, first) = (memory.u64_at("log_buf"), memory.symbol("log_first_idx"));
        let mut header = [0; 16];
        header[8..10].copy_from_slice(&len.to_le_bytes());
        for at in (0..4096).step_by(16) {
            memory.write(log_buf + at, &header);
        }
        memory.write(first, &16_u32.to_le_bytes());
        let next_idx = memory.symbol("log_next_idx");
        memory.write(next_idx, &next.to_le_bytes());
        let summary = read(&memory).unwrap();
        assert!(summary.cut.is_some(), "len {len}: {summary:?}");
        assert!(summary.records <= 256, "len {len}: {summary:?}");
    }
}

#[test]
fn implausible_lengths_and_indices_are_refused() {
    for (form, symbol, value) in [
        (LogForm::Records, "log_buf_len", 0_u32),
        (LogForm::Records, "log_buf_len", u32::MAX),
        (LogForm::Records, "log_first_idx", 4097),
        (LogForm::Records, "log_next_idx", u32::MAX),
        (LogForm::Text, "log_buf_len", 0),
        (LogForm::Text, "log_buf_len", 4095),
    ] {
        let mut memory = memory(form);
        let address = memory.symbol(symbol);
        memory.write(address, &value.to_le_bytes());
        let error = read(&memory).unwrap_err();
        assert!(error.contains(symbol), "{symbol} {value}: {error}");
    }
}

#[test]
fn fields_outside_their_structure_and_32_bit_words_are_refused() {
    for (key, value) in [
        ("SIZE(prb_desc)", "0"),
        ("SIZE(prb_desc)", "16"),
        ("SIZE(printk_info)", "99999999999"),
        ("OFFSET(printk_info.text_len)", "87"),
        ("OFFSET(prb_desc.state_var)", "18446744073709551615"),
        ("SIZE(atomic_long_t)", "4"),
    ] {
        let mut memory = memory(LogForm::Lockless);
        memory.set(key, Some(value));
        let error = read(&memory).unwrap_err();
        assert!(error.contains("VMCOREINFO"), "{key}={value}: {error}");
    }
}

/// Log of a dump whose page tables show one page all over the log.
fn aliased(form: LogForm) -> TinyKernel {
    let mut kernel = TinyKernel::default();
    match form {
        LogForm::Lockless => {
            // The layout is that of the synthetic log; the ring has 2^28 bytes of text.
            let log = KernelLog::new(form);
            let text = kernel.put(&[0x80; 4096]);
            let text = kernel.alias(text);
            let (bits, count) = (12_u64, 1_u64 << 12);
            let block = |id: u64| [id | 1 << 62, id << 16, ((id + 1) % count) << 16];
            let descriptors: Vec<u64> = (0..count).flat_map(block).collect();
            let descriptors = kernel.put_words(&descriptors);
            let mut info = [0_u64; 11];
            info[2] = 65528;
            let infos = kernel.put_words(&info.repeat(count as usize));
            let ring = [
                bits,
                descriptors,
                infos,
                count - 1,
                0,
                0,
                bits + 16,
                text,
                0,
            ];
            let ring = kernel.put_words(&ring);
            let prb = kernel.put_words(&[ring]);
            let lines = log.image(0).info;
            let lines = lines.lines().filter(|line| !line.starts_with("SYMBOL("));
            let lines: String = lines.map(|line| format!("{line}\n")).collect();
            kernel.info(&format!("{lines}SYMBOL(prb)={prb:x}\n"));
        }
        LogForm::Records => {
            // A record of 4096 bytes: its time, its length, and the length of its text.
            let mut record = [0_u8; 4096];
            record[8..12].copy_from_slice(&[0, 16, 0xf0, 15]);
            let page = kernel.put(&record);
            let page = kernel.alias(page);
            let words = kernel.put_words(&[page, 1 << 30, 0, 1]);
            kernel.info(&format!(
                "SYMBOL(log_buf)={words:x}\nSYMBOL(log_buf_len)={:x}\n\
                 SYMBOL(log_first_idx)={:x}\nSYMBOL(log_next_idx)={:x}\n\
                 SIZE(printk_log)=16\nOFFSET(printk_log.ts_nsec)=0\n\
                 OFFSET(printk_log.len)=8\nOFFSET(printk_log.text_len)=10\n",
                words + 8,
                words + 16,
                words + 24
            ));
        }
        _ => {
            let page = kernel.put(&[b'\n'; 4096]);
            let page = kernel.alias(page);
            let words = kernel.put_words(&[page, 1 << 30, 1 << 30]);
            kernel.info(&format!(
                "SYMBOL(log_buf)={words:x}\nSYMBOL(log_buf_len)={:x}\nSYMBOL(log_end)={:x}\n",
                words + 8,
                words + 16
            ));
        }
    }
    kernel
}

#[test]
fn log_is_no_larger_than_the_memory_that_holds_it() {
    for form in [LogForm::Lockless, LogForm::Records, LogForm::Text] {
        let kernel = aliased(form);
        let memory = kernel.memory.len();
        let source = Source::from_bytes(Box::new(kernel.elf()), "dump".into()).unwrap();
        let kernel = Kernel::find(&source, None, IoMethod::Read, 16).unwrap();
        assert_eq!(
            kernel.size_up_to(u64::MAX),
            memory.next_multiple_of(4096) as u64
        );
        assert_eq!(kernel.size_up_to(100), 100);
        let log = Log::open(&kernel).unwrap();
        for style in [TextStyle::PLAIN, TextStyle::VMCORE_DMESG] {
            let mut out = Counter::default();
            let summary = log.write_styled(&mut out, false, style).unwrap();
            // An escape takes four bytes.
            assert!(out.0 <= 5 * memory, "{form:?}: {} bytes", out.0);
            assert!(summary.cut.is_some(), "{form:?}: {summary:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn arbitrary_bytes_anywhere_are_harmless(
        form in proptest::sample::select(&FORMS[..]),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 1..9_usize), 0..24),
        keys in proptest::collection::vec((any::<usize>(), "[0-9a-f]{1,16}"), 0..3),
    ) {
        let mut memory = memory(form);
        for (at, value, len) in edits {
            // Half of them in the first words, where the sizes are.
            let at = at.index(memory.kernel.bytes.len());
            let at = if value % 2 == 0 { at % 160 } else { at }.min(memory.kernel.bytes.len() - 8);
            // Small numbers mean more than large ones.
            let value = if value % 3 == 0 { value >> 56 } else { value };
            memory.kernel.bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        }
        for (index, value) in keys {
            memory.set_nth(index, &value);
        }
        let _ = read(&memory);
    }
}
