//! Page table walks, each written from its architecture's manual.

use super::reader::Reader;

fn bits(value: u64, high: u32, low: u32) -> u64 {
    (value >> low) & (u64::MAX >> (63 - (high - low)))
}

pub fn x86_64(reader: &Reader<'_>, vaddr: u64) -> Option<u64> {
    let base = reader.decimal("NUMBER(phys_base)");
    let sme = reader.number("sme_mask").unwrap_or(0);
    let mut table =
        (reader.symbol("swapper_pg_dir") - 0xffff_ffff_8000_0000).wrapping_add_signed(base);
    let five = reader.decimal("NUMBER(pgtable_l5_enabled)") == 1;
    for shift in [48, 39, 30, 21, 12].iter().skip(usize::from(!five)) {
        let entry = reader.entry(table + ((vaddr >> shift) % 512) * 8, false)?;
        if entry & 1 == 0 {
            return None;
        }
        let mask = (1 << shift) - 1;
        let target = entry & 0x000f_ffff_ffff_f000 & !sme;
        if *shift == 12 || (entry & 0x80 != 0 && *shift < 39) {
            return Some((target & !mask) | (vaddr & mask));
        }
        table = target;
    }
    None
}

pub fn arm64(reader: &Reader<'_>, vaddr: u64) -> Option<u64> {
    let page = reader.page_size().ilog2();
    let built = reader.number("VA_BITS").unwrap();
    let actual = match reader.number("TCR_EL1_T1SZ") {
        Some(size) if page < 16 => 64 - size,
        _ => built,
    } as u32;
    let wide = reader.number("MAX_PHYSMEM_BITS") == Some(52);
    let output = |entry: u64| match (page, actual) {
        (16, _) if wide || built == 52 => bits(entry, 47, 16) << 16 | bits(entry, 15, 12) << 48,
        (12 | 14, 52) => bits(entry, 49, page) << page | bits(entry, 9, 8) << 50,
        _ => bits(entry, 47, page) << page,
    };
    let root = reader.number("kimage_voffset").unwrap();
    let mut table = reader.symbol("swapper_pg_dir").wrapping_sub(root);
    let per_level = page - 3;
    let levels = (actual - page).div_ceil(per_level);
    for level in (0..levels).rev() {
        let low = page + level * per_level;
        let high = (low + per_level).min(actual) - 1;
        let entry = reader.entry(table + bits(vaddr, high, low) * 8, false)?;
        let rest = bits(vaddr, low - 1, 0);
        match (entry & 3, level) {
            (3, 0) | (1, 1..) => return Some((output(entry) >> low << low) | rest),
            (3, _) => table = output(entry),
            _ => return None,
        }
    }
    None
}

pub fn s390x(reader: &Reader<'_>, vaddr: u64) -> Option<u64> {
    let mut table = reader.symbol("swapper_pg_dir");
    if let Some(base) = reader.hex("KERNELOFFPHYS") {
        table = table - reader.hex("KERNELOFFSET").unwrap() + base;
    }
    // The type of the top table is in each of its entries.
    let top = 2 + bits(reader.entry(table, true)?, 3, 2);
    let covered = 20 + 11 * (top as u32 - 1);
    if covered < 64 && vaddr >> covered != 0 {
        return None;
    }
    for level in (1..=top).rev() {
        let (low, high) = match level {
            1 => (12, 19),
            _ => (9 + 11 * (level as u32 - 1), 19 + 11 * (level as u32 - 1)),
        };
        let entry = reader.entry(table + bits(vaddr, high, low) * 8, true)?;
        let rest = bits(vaddr, low - 1, 0);
        match level {
            1 if entry & 0x400 != 0 => return None,
            1 => return Some((entry & !0xfff) | rest),
            _ if entry & 0x20 != 0 => return None,
            2 | 3 if entry & 0x400 != 0 => return Some((entry >> low << low) | rest),
            2 => table = entry & !0x7ff,
            _ => {
                assert_eq!(bits(entry, 3, 2), level - 2, "the type of a region entry");
                table = entry & !0xfff;
            }
        }
    }
    None
}

pub fn riscv64(reader: &Reader<'_>, vaddr: u64) -> Option<u64> {
    let image = reader.symbol("swapper_pg_dir");
    let mut table = match reader.number("va_kernel_pa_offset") {
        Some(offset) => image.wrapping_sub(offset),
        None => {
            image - reader.number("KERNEL_LINK_ADDR").unwrap()
                + reader.number("phys_ram_base").unwrap()
        }
    };
    let levels = (reader.number("VA_BITS").unwrap() as u32 - 12) / 9;
    for level in (0..levels).rev() {
        let low = 12 + 9 * level;
        let entry = reader.entry(table + bits(vaddr, low + 8, low) * 8, false)?;
        if entry & 1 == 0 {
            return None;
        }
        let target = bits(entry, 53, 10) << 12;
        if entry & 0xe == 0 {
            table = target;
            continue;
        }
        // A leaf marked N is as large as the lowest set bit of its page number tells.
        let low = if entry >> 63 == 1 {
            low + 1 + (target >> low).trailing_zeros()
        } else {
            low
        };
        return Some((target >> low << low) | bits(vaddr, low - 1, 0));
    }
    None
}

pub fn ppc64(reader: &Reader<'_>, vaddr: u64) -> Option<u64> {
    let linear = vaddr - 0xc000_0000_0000_0000;
    let hash = reader.number("RADIX_MMU") == Some(0) || is_hash(reader);
    if hash {
        if linear < 1 << 46 && linear >> 40 < 0x3d {
            return Some(linear);
        }
        if let Some(found) = vmemmap_list(reader, vaddr) {
            return Some(found);
        }
    }
    ppc64_tables(reader, hash, vaddr)
}

fn ppc64_tables(reader: &Reader<'_>, hash: bool, vaddr: u64) -> Option<u64> {
    let page = reader.page_size().ilog2();
    let sizes: [u32; 4] = match (hash, page) {
        (false, 16) => [13, 9, 9, 5],
        (false, _) => [13, 9, 9, 9],
        (true, 16) => [8, 10, 10, 8],
        (true, _) => [9, 9, 7, 9],
    };
    let mut low = page + sizes.iter().sum::<u32>();
    let mut table = reader.symbol("swapper_pg_dir") - 0xc000_0000_0000_0000;
    for size in sizes {
        low -= size;
        let entry = reader.entry(table + bits(vaddr, low + size - 1, low) * 8, true)?;
        if entry >> 63 == 0 {
            return None;
        }
        if entry >> 62 & 1 == 1 {
            return Some((bits(entry, 52, low) << low) | bits(vaddr, low - 1, 0));
        }
        table = bits(entry, 61, 8) << 8;
    }
    None
}

/// True if the tables, read as those of the radix MMU, do not map the linear map.
fn is_hash(reader: &Reader<'_>) -> bool {
    ppc64_tables(reader, false, 0xc000_0000_0000_0000) != Some(0)
}

/// Follows vmemmap_list, which is in the linear map.
fn vmemmap_list(reader: &Reader<'_>, vaddr: u64) -> Option<u64> {
    let linear = |address: u64| address - 0xc000_0000_0000_0000;
    let psize = u64::from(reader.phys32(linear(reader.symbol("mmu_vmemmap_psize"))));
    let defs = linear(reader.symbol("mmu_psize_defs"));
    let shift = reader.phys32(defs + psize * reader.offset("SIZE(mmu_psize_def)"));
    let mut item = reader.phys(linear(reader.symbol("vmemmap_list")));
    while item != 0 {
        let field = |name: &str| {
            let offset = reader.offset(&format!("OFFSET(vmemmap_backing.{name})"));
            reader.phys(linear(item) + offset)
        };
        let start = field("virt_addr");
        if vaddr >> shift == start >> shift {
            return Some(field("phys") + (vaddr - start));
        }
        item = field("list");
    }
    None
}

pub fn loongarch64(reader: &Reader<'_>, vaddr: u64) -> Option<u64> {
    let physical = |address: u64| bits(address, 47, 0);
    if vaddr >> 60 == 9 {
        return Some(physical(vaddr));
    }
    let page = reader.page_size().ilog2();
    let per_level = page - 3;
    let levels = if page == 14 { 3 } else { 2 };
    let mut table = physical(reader.symbol("swapper_pg_dir"));
    for level in (0..levels).rev() {
        let low = page + level * per_level;
        let entry = reader.entry(table + bits(vaddr, low + per_level - 1, low) * 8, false)?;
        let leaf = level == 0 || (entry >> 60 != 9 && entry & 0x40 != 0);
        if leaf && entry & 0x81 != 0x81 {
            return None;
        }
        if leaf {
            return Some((bits(entry, 47, low) << low) | bits(vaddr, low - 1, 0));
        }
        table = physical(entry);
    }
    None
}
