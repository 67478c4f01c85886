//! Sources whose kernel is not found.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::path::PathBuf;

use bigiron_dump::{DumpError, Subject};
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, KernelError, Source};
use bigiron_synth::{ElfShape, Synth};

/// A core whose VMCOREINFO has a byte that is no text, in the line of `key`: in the note, and in
/// memory.
fn damaged_core(key: &str) -> Source {
    let machine = Synth::from_text("kernel 6.12\nram 0x0-0x9f 0x100-0xfff").unwrap();
    let mut core = machine.elf(&ElfShape::vmcore());
    let windows = core.windows(key.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == key.as_bytes());
    let found: Vec<usize> = found.map(|(at, _)| at).collect();
    assert_eq!(found.len(), 2);
    found.iter().for_each(|at| core[*at] |= 0x80);
    Source::from_bytes(Box::new(core), PathBuf::from("core")).unwrap()
}

fn subject<'s>(source: &'s Source, level: u8) -> Result<Subject<'s>, DumpError> {
    let found = Kernel::find(source, None, IoMethod::Read, 16);
    Subject::new(source, found, DumpLevel::new(level).unwrap())
}

#[test]
fn only_levels_without_struct_pages_need_no_kernel() {
    let source = damaged_core("SIZE(page)=");
    for level in 0..=31 {
        match subject(&source, level) {
            Ok(subject) => {
                assert!(level <= 1, "level {level}");
                assert!(subject.kernel().is_none());
                let warning = subject.warning().unwrap();
                assert!(warning.starts_with("core: "), "{warning}");
            }
            Err(error) => {
                assert!(level > 1, "level {level}: {error}");
                assert!(matches!(error, DumpError::NoKernel { .. }), "{error}");
            }
        }
    }
}

#[test]
fn names_come_from_the_sound_lines_of_vmcoreinfo() {
    let source = damaged_core("SIZE(page)=");
    let subject = subject(&source, 0).unwrap();
    assert_eq!(subject.utsname().machine(), "x86_64");
    let release = subject.utsname().release();
    assert!(release.starts_with("6.12"), "{release}");
}

#[test]
fn vmcoreinfo_given_for_another_kernel_is_an_error_at_every_level() {
    let source = damaged_core("SIZE(page)=");
    let own = source.memory().vmcoreinfo_note().unwrap();
    let own = Vmcoreinfo::sound_lines(own.text);
    let other = own.text().replacen("OSRELEASE=6", "OSRELEASE=5", 1);
    let sound = Synth::from_text("kernel 6.12\nram 0x0-0x9f 0x100-0xfff").unwrap();
    let sound = Box::new(sound.elf(&ElfShape::vmcore()));
    let sound = Source::from_bytes(sound, PathBuf::from("core")).unwrap();
    let given = Vmcoreinfo::parse(other.as_bytes(), 0).unwrap();
    let found = Kernel::find(&sound, Some(given), IoMethod::Read, 16);
    let error = Subject::new(&sound, found, DumpLevel::default()).err();
    let of_another =
        |error: &DumpError| matches!(error, DumpError::Kernel(KernelError::OtherKernel { .. }));
    assert!(error.as_ref().is_some_and(of_another), "{error:?}");
}
