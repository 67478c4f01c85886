//! The filter on dumps that claim more struct pages than they can have.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, KernelError, SECTION_FRAMES, Source};
use bigiron_synth::TinyKernel;

/// A kernel whose sections all have the same page of struct pages, and `lines` of VMCOREINFO.
fn kernel(lines: &str) -> TinyKernel {
    let mut kernel = TinyKernel::default();
    let page = kernel.next();
    let shown = kernel.alias(page);
    // Each word is a section with struct pages, and a struct page is any eight of them.
    assert_eq!(kernel.put_words(&[shown | 2; 512]), page);
    kernel.info(&format!(
        "SYMBOL(mem_section)={shown:x}\nSIZE(mem_section)=8\nSIZE(page)=64\n\
         OFFSET(page.flags)=0\nOFFSET(page._refcount)=52\nOFFSET(page.mapping)=24\n\
         OFFSET(page.lru)=8\nOFFSET(page._mapcount)=48\nOFFSET(page.private)=40\n\
         NUMBER(PG_lru)=4\nNUMBER(PG_private)=13\nNUMBER(PG_swapcache)=10\n\
         NUMBER(PG_slab)=9\nNUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)=-129\n{lines}"
    ));
    kernel
}

fn with_kernel<T>(kernel: &TinyKernel, work: impl FnOnce(&Kernel) -> T) -> T {
    let source = Source::from_bytes(Box::new(kernel.elf()), "tiny".into()).unwrap();
    work(&Kernel::find(&source, None, IoMethod::Auto, 64).unwrap())
}

#[test]
fn struct_pages_of_more_memory_than_the_dump_can_describe_are_not_read() {
    let mut tiny = kernel("");
    tiny.ram = 64 << 30;
    let most = (256 + (tiny.memory.len() as u64).div_ceil(32 << 10)) * SECTION_FRAMES;
    with_kernel(&tiny, |kernel| {
        let filter = Filter::new(kernel, DumpLevel::MAX).unwrap();
        let mut reader = kernel.source().reader(IoMethod::Auto);
        let mut bits = [(); 2].map(|()| Bitmap::new(SECTION_FRAMES as usize));
        let [ram, kept] = &mut bits;
        // A second pass decides the same.
        let [first, second] = [(); 2].map(|()| {
            let sections = kernel.source().sections();
            let results = sections.map(|first| {
                let found = filter.scan_section(reader.as_mut(), first, ram, kept);
                let found = found.unwrap();
                (found.scanned, found.undescribed)
            });
            results.collect::<Vec<_>>()
        });
        assert_eq!(first, second);
        let scanned: u64 = first.iter().map(|(scanned, _)| scanned).sum();
        let undescribed: u64 = first.iter().map(|(_, undescribed)| undescribed).sum();
        assert!(
            0 < scanned && scanned <= most,
            "{scanned} of at most {most}"
        );
        assert_eq!(scanned + undescribed, tiny.ram / 4096);
    });
}

#[test]
fn struct_pages_of_all_memory_are_read_where_the_dump_has_room_for_them() {
    let mut tiny = kernel("");
    tiny.ram = 64 << 30;
    tiny.memory.resize(8 << 20, 0);
    with_kernel(&tiny, |kernel| {
        let filter = Filter::new(kernel, DumpLevel::MAX).unwrap();
        let mut reader = kernel.source().reader(IoMethod::Auto);
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut kept = Bitmap::new(SECTION_FRAMES as usize);
        let last = kernel.source().sections().last().unwrap();
        let found = filter.scan_section(reader.as_mut(), last, &mut ram, &mut kept);
        assert_eq!(found.unwrap().scanned, SECTION_FRAMES);
    });
}

#[test]
fn sections_smaller_than_those_of_any_kernel_are_refused() {
    let mut tiny = kernel("NUMBER(SECTION_SIZE_BITS)=12\nNUMBER(MAX_PHYSMEM_BITS)=36\n");
    tiny.ram = 1 << 30;
    with_kernel(&tiny, |kernel| {
        let error = Filter::new(kernel, DumpLevel::MAX).err().unwrap();
        assert!(matches!(error, KernelError::Implausible { .. }), "{error}");
        assert!(error.to_string().contains("2^24"), "{error}");
    });
}

#[test]
fn search_for_the_last_struct_page_below_a_device_ends() {
    // All sections but the first have no struct pages.
    let mut tiny = kernel("NUMBER(SECTION_SIZE_BITS)=24\nNUMBER(MAX_PHYSMEM_BITS)=50\n");
    let table = tiny.next();
    let mut words = [0; 512];
    words[0] = table | 2;
    tiny.put_words(&words);
    // All other tables are empty.
    let empty = tiny.put_words(&[0; 512]);
    let page = tiny.next();
    let tables = tiny.alias(page);
    words[0] = table;
    words[1..].fill(empty);
    tiny.put_words(&words);
    tiny.info(&format!(
        "SYMBOL(mem_section)={tables:x}\nSIZE(mem_section)=4\nLENGTH(mem_section)=65536\n"
    ));
    tiny.device = (1 << 50) - 4096;
    with_kernel(&tiny, |kernel| {
        let map = MemMap::find(kernel).unwrap();
        let reads = || {
            let statistics = kernel.memory().statistics();
            statistics.hits + statistics.misses
        };
        let before = reads();
        assert_eq!(map.end_frame(kernel).unwrap(), kernel.source().end_frame());
        let most = 16 << 18;
        assert!(reads() - before <= most, "{} reads", reads() - before);
    });
}
