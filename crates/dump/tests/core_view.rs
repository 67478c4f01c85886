//! A dump read as a plain core, at any offset and in pieces of any size.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use bigiron_dump::CoreView;
use bigiron_kernel::{IoMethod, Kernel, MemorySource, Source};
use bigiron_synth::{ElfShape, Machine, Synth};

/// RAM in three pieces; the pages are distinguished by their contents.
const MACHINE: &str = "kernel 6.12
    ram 0x0-0x9f 0x100-0x1fff 0x3000-0x30ff
    pages 0x200 slab n=64 fill=random
    pages 0x500 slab n=32 fill=const:7";

fn with_view(machine: &Machine, work: impl FnOnce(&CoreView)) {
    let bytes = machine.elf(&ElfShape::vmcore());
    let source = Source::from_bytes(Box::new(bytes), "vmcore".into()).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    work(&CoreView::new(&kernel, IoMethod::Auto).unwrap());
}

fn read(view: &CoreView, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xaa; len];
    let count = view.read_at(offset, &mut buf).unwrap();
    buf.truncate(count);
    buf
}

#[test]
fn reads_of_any_size_agree_with_the_whole_core() {
    let machine = Synth::from_text(MACHINE).unwrap();
    with_view(&machine, |view| {
        let size = usize::try_from(view.size()).unwrap();
        let whole = read(view, 0, size);
        assert_eq!(whole.len(), size);
        assert!(whole.starts_with(b"\x7fELF"));
        for piece in [1_usize, 511, 4095, 4096, 4097, 70_001, 1 << 20] {
            // All of it would take too long, a byte at a time.
            let step = piece.max(size / 300);
            for at in (0..size).step_by(step) {
                let found = read(view, at as u64, piece);
                let right = &whole[at..size.min(at + piece)];
                assert!(found == right, "{piece} bytes at {at:#x}");
            }
        }
    });
}

#[test]
fn reads_past_the_end_return_nothing() {
    let machine = Synth::from_text(MACHINE).unwrap();
    with_view(&machine, |view| {
        let size = view.size();
        assert_eq!(read(view, size - 1, 10).len(), 1);
        for offset in [size, size + 1, u64::MAX] {
            assert!(read(view, offset, 10).is_empty());
        }
        assert!(read(view, 0, 0).is_empty());
    });
}

#[test]
fn core_has_the_same_contents_as_its_dump() {
    let machine = Synth::from_text(MACHINE).unwrap();
    with_view(&machine, |view| {
        let bytes = read(view, 0, usize::try_from(view.size()).unwrap());
        let source = Source::from_bytes(Box::new(bytes), "core".into()).unwrap();
        let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
        assert!(kernel.info().release().is_some());
        let again = CoreView::new(&kernel, IoMethod::Auto).unwrap();
        assert_eq!(again.size(), view.size());
        let len = usize::try_from(view.size()).unwrap();
        assert!(read(&again, 0, len) == read(view, 0, len));
    });
}

#[test]
fn missing_segment_addresses_come_from_the_page_tables() {
    let machine = Synth::from_text(MACHINE).unwrap();
    let source = Source::from_bytes(Box::new(machine.elf(&ElfShape::qemu())), "qemu".into());
    let source = source.unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let told = |memory: &dyn MemorySource| {
        let segments = memory.header_segments().iter();
        segments.filter(|segment| segment.virt.0 != 0).count()
    };
    assert_eq!(told(source.memory()), 0, "QEMU tells none");
    let view = CoreView::new(&kernel, IoMethod::Auto).unwrap();
    let core = read(&view, 0, usize::try_from(view.size()).unwrap());
    let core = Source::from_bytes(Box::new(core), "core".into()).unwrap();
    assert!(told(core.memory()) > 1, "RAM, and the kernel's image");
    let mut images = 0;
    for segment in core.memory().header_segments() {
        if segment.virt.0 == 0 {
            continue;
        }
        for inside in [0, segment.memory_size / 2, segment.memory_size - 1] {
            let address = segment.virt.checked_add(inside).unwrap();
            let leaf = kernel.translate(address).unwrap().unwrap();
            assert_eq!(leaf.physical.0, segment.physical.0 + inside, "{address}");
        }
        let text = kernel.info().symbol("_stext").unwrap();
        images += usize::from(text.0.wrapping_sub(segment.virt.0) < segment.memory_size);
    }
    assert_eq!(images, 1);
}
