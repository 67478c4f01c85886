//! What a dump says about struct pages that lie.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::path::PathBuf;

use bigiron_dump::{
    DumpOptions, DumpOutput, Format, OutputTarget, Progress, Subject, Summary, dump,
};
use bigiron_helpers::Stop;
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, Source};
use bigiron_synth::{ElfShape, Machine, Synth};

fn dumped(machine: &Machine, level: u8) -> Summary {
    let core = Box::new(machine.elf(&ElfShape::vmcore()));
    let source = Source::from_bytes(core, PathBuf::from("core")).unwrap();
    let subject = Subject::from(Kernel::find(&source, None, IoMethod::Read, 16).unwrap());
    let output = DumpOutput::Whole {
        target: OutputTarget::Nowhere,
        format: Format::default(),
        recipients: None,
    };
    let options = DumpOptions {
        level: DumpLevel::new(level).unwrap(),
        threads: 2,
        ..DumpOptions::default()
    };
    dump(&subject, &output, &options, &Progress::new(), &Stop::new()).unwrap()
}

#[test]
fn a_warning_names_what_the_classes_would_have_excluded() {
    let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x1fff\npages 0x1000 cache\n";
    let mut machine = Synth::from_text(text).unwrap();
    let wrong = |summary: &Summary| {
        let mut warnings = summary.warnings.iter();
        warnings
            .find(|text| text.contains("kernel itself"))
            .cloned()
    };
    assert_eq!(wrong(&dumped(&machine, 31)), None);
    let lie = machine.struct_page(0x1000).unwrap();
    let lie = machine.read(lie, 64).unwrap();
    let frame = machine.struct_page(0).unwrap() / 4096;
    let place = machine.struct_page(frame).unwrap();
    machine.write(place, &lie).unwrap();
    let summary = dumped(&machine, 31);
    assert_eq!(summary.guarded, 1);
    assert_eq!(summary.excluded.cache, 1);
    let warning = wrong(&summary).unwrap();
    assert!(warning.ends_with("kept: the memory map (1)"), "{warning}");
    // A level that keeps page cache has nothing to tell.
    let summary = dumped(&machine, 16);
    assert_eq!((wrong(&summary), summary.guarded), (None, 0));
}
