//! Where the guest's RAM is in its physical addresses. The stream does not say so: it follows from
//! the machine type, and on some from the size.

use super::Block;

/// The first address above the hole for devices, on x86.
const HIGH: u64 = 4 << 30;
/// Maximum RAM of x86 machines. With more, its address depends on the processor: QEMU leaves room
/// for AMD's HyperTransport below 1 TiB (hw/i386/pc.c, pc_memory_init).
const MOST_ON_X86: u64 = 512 << 30;
/// Smallest size of a block that is taken for memory which cannot be placed.
const SMALLEST_MEMORY: u64 = 64 << 20;
/// The name of a block before a number, for RAM of several nodes (`-numa node,memdev=`).
const NODE: &str = "ram-node";
/// Names of RAM of one node, with its first address, except on x86.
const FIRST_ADDRESSES: [(&str, u64); 4] = [
    ("mach-virt.ram", 1 << 30),
    ("ppc_spapr.ram", 0),
    ("riscv_virt_board.ram", 2 << 30),
    ("s390.ram", 0),
];
/// First parts of machine types, with the first address of their RAM, except on x86.
const MACHINES: [(&str, u64); 3] = [("virt-", 1 << 30), ("pseries-", 0), ("s390-ccw-virtio-", 0)];

/// A part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Number of its first page among those of all blocks.
    pub(super) first_page: u64,
    pub(super) pages: u64,
    /// Its physical address.
    pub(super) physical: u64,
}

/// Places the blocks with the guest's RAM. Also returns the names of blocks that may be memory,
/// and whose address the stream does not tell.
pub(super) fn place(
    machine: &str,
    blocks: &[Block],
    page_shift: u32,
) -> Result<(Vec<Piece>, Vec<String>), String> {
    let (ram, base) = find_ram(machine, blocks)?;
    let mut offset = 0;
    let pages: u64 = ram.iter().map(|block| block.pages).sum();
    let size = pages << page_shift;
    let low = match base {
        Some(_) => u64::MAX,
        None => low_on_x86(machine, size)?,
    };
    let mut pieces = Vec::new();
    for block in &ram {
        let mut done = 0;
        while done < block.pages {
            let at = offset + (done << page_shift);
            let (physical, room) = match at < low {
                true => (base.unwrap_or(0) + at, low - at),
                false => (HIGH + (at - low), u64::MAX),
            };
            let pages = (room >> page_shift).min(block.pages - done);
            pieces.push(Piece {
                first_page: block.first_page + done,
                pages,
                physical,
            });
            done += pages;
        }
        offset += block.pages << page_shift;
    }
    let unplaced = blocks.iter().filter(|block| {
        block.pages << page_shift >= SMALLEST_MEMORY
            && !ram.iter().any(|ram| ram.name == block.name)
    });
    let unplaced = unplaced.map(|block| block.name.clone()).collect();
    Ok((pieces, unplaced))
}

/// Finds the blocks that are the machine's RAM, in the order of their addresses, and their first
/// address, except on x86.
fn find_ram<'b>(
    machine: &str,
    blocks: &'b [Block],
) -> Result<(Vec<&'b Block>, Option<u64>), String> {
    let named = |name: &str| {
        let mut found = blocks.iter();
        found.find(|block| plain(&block.name) == name)
    };
    if let Some(block) = named("pc.ram") {
        return Ok((vec![block], None));
    }
    for (name, first) in FIRST_ADDRESSES {
        if let Some(block) = named(name) {
            return Ok((vec![block], Some(first)));
        }
    }
    let nodes: Vec<&Block> = (0..blocks.len())
        .map_while(|node| named(&format!("{NODE}{node}")))
        .collect();
    let first = MACHINES
        .iter()
        .find(|(name, _)| machine.starts_with(name))
        .map(|(_, first)| *first);
    let is_known = first.is_some() || machine.starts_with("pc");
    if nodes.is_empty() || !is_known {
        let names: Vec<&str> = blocks.iter().map(|block| block.name.as_str()).collect();
        return Err(format!(
            "the address of the RAM of machine type {machine:?} is not known; its RAM blocks are {}",
            names.join(", ")
        ));
    }
    Ok((nodes, first))
}

/// The name of a block without the path of its object.
fn plain(name: &str) -> &str {
    name.strip_prefix("/objects/").unwrap_or(name)
}

/// The end of the RAM below 4 GiB on x86 (hw/i386/pc_piix.c and pc_q35.c, pc_init1 and
/// pc_q35_init).
fn low_on_x86(machine: &str, size: u64) -> Result<u64, String> {
    const GIB: u64 = 1 << 30;
    if size > MOST_ON_X86 {
        return Err(format!(
            "the guest has {size} bytes of RAM; above {MOST_ON_X86}, its address depends on the \
             processor, which is not read"
        ));
    }
    if machine.contains("q35") {
        const LOW: u64 = 0xb000_0000;
        return Ok(if size >= LOW { 2 * GIB } else { LOW });
    }
    if machine.starts_with("pc-i440fx") {
        const LOW: u64 = 0xe000_0000;
        return Ok(if size >= LOW { 3 * GIB } else { LOW });
    }
    // On every machine type, this much RAM is in one piece.
    if size <= 2 * GIB {
        return Ok(u64::MAX);
    }
    Err(format!(
        "where machine type {machine:?} has its RAM above 2 GiB is not known"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    fn blocks(sizes: &[(&str, u64)]) -> Vec<Block> {
        let mut first_page = 0;
        let block = |(name, mebibytes): &(&str, u64)| {
            let block = Block {
                name: (*name).into(),
                first_page,
                pages: mebibytes << 8,
            };
            first_page += block.pages;
            block
        };
        sizes.iter().map(block).collect()
    }

    /// Physical address and size of each piece, in MiB.
    fn placed(machine: &str, sizes: &[(&str, u64)]) -> Vec<(u64, u64)> {
        let (pieces, _) = place(machine, &blocks(sizes), 12).unwrap();
        let pieces = pieces.iter();
        pieces.map(|p| (p.physical >> 20, p.pages >> 8)).collect()
    }

    #[test]
    fn ram_of_a_pc_above_the_hole_begins_at_4_gib() {
        let ram = |mebibytes| [("vga.vram", 16), ("pc.ram", mebibytes)];
        assert_eq!(placed("pc-q35-7.2", &ram(1024)), [(0, 1024)]);
        assert_eq!(placed("pc-q35-7.2", &ram(0xaff)), [(0, 0xaff)]);
        assert_eq!(
            placed("pc-q35-7.2", &ram(0xb00)),
            [(0, 2048), (4096, 0x300)]
        );
        assert_eq!(placed("pc-i440fx-6.0", &ram(0xdff)), [(0, 0xdff)]);
        let found = placed("pc-i440fx-6.0", &ram(8192));
        assert_eq!(found, [(0, 3072), (4096, 5120)]);
        assert_eq!(placed("microvm", &ram(2048)), [(0, 2048)]);
        assert!(place("microvm", &blocks(&ram(4096)), 12).is_err());
    }

    #[test]
    fn ram_of_nodes_is_in_the_order_of_their_numbers() {
        let nodes = [("ram-node1", 1024), ("/objects/ram-node0", 2560)];
        let (pieces, unplaced) = place("pc-q35-8.0", &blocks(&nodes), 12).unwrap();
        let starts = pieces.iter().map(|piece| piece.first_page);
        assert!(starts.eq([1024 << 8, (1024 + 2048) << 8, 0]));
        let found = pieces.iter().map(|piece| piece.physical >> 20);
        assert!(found.eq([0, 4096, 4096 + 512]));
        assert_eq!(unplaced, [""; 0]);
        assert_eq!(placed("virt-8.0", &nodes), [(1024, 2560), (3584, 1024)]);
        assert!(place("none", &blocks(&nodes), 12).is_err());
    }

    #[test]
    fn memory_whose_address_is_not_told_is_named() {
        let all = [("pc.ram", 512), ("dimm0", 1024), ("vga.vram", 16)];
        let (_, unplaced) = place("pc-q35-8.0", &blocks(&all), 12).unwrap();
        assert_eq!(unplaced, ["dimm0"]);
        assert_eq!(placed("virt-7.2", &[("mach-virt.ram", 128)]), [(1024, 128)]);
    }
}
