//! The page frames that a filter keeps.

use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES};

/// Returns true for each page frame that a dump of `level` keeps.
pub fn kept(kernel: &Kernel, level: u8, io: IoMethod) -> Vec<bool> {
    let filter = Filter::new(kernel, DumpLevel::new(level).unwrap()).unwrap();
    let mut reader = kernel.source().reader(io);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    let mut all = vec![false; kernel.source().end_frame().0 as usize];
    for first in kernel.source().sections() {
        filter
            .scan_section(reader.as_mut(), first, &mut ram, &mut bits)
            .unwrap();
        for bit in 0..SECTION_FRAMES as usize {
            if bits.get(bit) {
                all[first.0 as usize + bit] = true;
            }
        }
    }
    all
}
