//! Damaged kernel logs of all forms: the fuzzer overwrites bytes of their rings and of
//! VMCOREINFO. Reading them ends, and returns no more than their sizes permit.
#![no_main]

use std::io::{self, Write};
use std::sync::LazyLock;

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_fuzz::KernelBytes;
use bigiron_fuzz::limits::{Budget, TABLE_MEMORY, within};
use bigiron_fuzz::repeated::Repeated;
use bigiron_inspect::Crash;
use bigiron_kernel::printk::{Log, TextStyle};
use bigiron_synth::{KernelLog, LogForm, LogImage};
use libfuzzer_sys::fuzz_target;

const BASE: u64 = 0xffff_8880_0012_3000;
const FORMS: [LogForm; 5] = [
    LogForm::Lockless,
    LogForm::LocklessToTheEnd,
    LogForm::Records,
    LogForm::OldRecords,
    LogForm::Text,
];
/// Larger than the output of these logs can be, with each byte escaped and each record with all
/// its prefixes.
const MAX_OUTPUT: usize = 4 << 20;
/// Most bytes that are read of these logs, by three passes over them.
const MOST_READ: u64 = 256 << 20;

static LOGS: LazyLock<Vec<LogImage>> = LazyLock::new(|| {
    FORMS
        .iter()
        .map(|form| KernelLog::new(*form).with_records(150).image(BASE))
        .collect()
});

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        assert!(self.0 < MAX_OUTPUT, "output without end");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, edits)) = data.split_first() else {
        return;
    };
    let image = &LOGS[usize::from(choice >> 2) % LOGS.len()];
    let mut bytes = image.bytes.clone();
    let mut info = image.info.clone().into_bytes();
    for edit in edits.chunks_exact(7).take(256) {
        let place = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
        let (value, len) = (&edit[2..6], usize::from(edit[6] % 4) + 1);
        let place = place % (info.len() + bytes.len());
        let (target, at) = match place.checked_sub(info.len()) {
            Some(at) => (&mut bytes, at),
            None => (&mut info, place),
        };
        let len = len.min(target.len() - at);
        target[at..at + len].copy_from_slice(&value[..len]);
    }
    let Ok(info) = Vmcoreinfo::parse(&info, 0) else {
        return;
    };
    let piece = KernelBytes {
        base: BASE,
        info,
        endian: match choice & 1 {
            0 => Endian::Little,
            _ => Endian::Big,
        },
        bytes,
        physical: |address| address - BASE,
    };
    let memory = Repeated {
        piece,
        repeats: choice & 2 != 0 && edits.len() % 2 == 1,
        budget: Budget::new(MOST_READ),
    };
    within(TABLE_MEMORY, data.len(), || {
        read_log(&memory, choice & 2 != 0)
    });
});

fn read_log(memory: &Repeated, since_clear: bool) {
    let Ok(log) = Log::open(memory) else {
        return;
    };
    let _ = Crash::find(&log);
    let _ = log.write_text(&mut Counter(0), since_clear);
    let style = TextStyle {
        level_names: true,
        caller: true,
        ..TextStyle::VMCORE_DMESG
    };
    if let Ok(summary) = log.write_styled(&mut Counter(0), since_clear, style) {
        let _ = summary.warnings();
    }
}
