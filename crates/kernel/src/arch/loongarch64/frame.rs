//! The frame of a function, from the instructions at its start.
//!
//! ```text
//! addi.d  sp, sp, -N      makes the frame
//! st.d    ra, sp, M       keeps the return address
//! ```
//!
//! LoongArch Reference Manual, volume 1; unwind_by_prologue,
//! arch/loongarch/kernel/unwind_prologue.c. Frames of more than 2 KiB are made in several steps,
//! of which the kernel takes the first only.

use super::super::stacks::{Form, FrameForms};

/// The instructions that make and drop a frame.
pub const FRAME: FrameForms = FrameForms {
    // `addi.d sp, sp, …`, a negative number.
    make: &[Form(0xffe0_03ff, 0x02e0_0063)],
    // `addi.d sp, sp, …`, a positive number.
    drop: Form(0xffe0_03ff, 0x02c0_0063),
    // `jr ra`.
    leave: &[Form(!0, 0x4c00_0020)],
};

const SP: u32 = 3;

/// What the instructions of a function up to an address did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Size of the frame, in bytes; 0 without one.
    pub size: u64,
    /// Offset of the return address in the frame; `None` if it is not kept.
    pub kept: Option<u64>,
}

impl Frame {
    /// Parses little-endian instructions from the start of a function on. `None` if the frame's
    /// size is in a register whose value is not known.
    pub fn parse(code: &[u8]) -> Option<Self> {
        let words = code.chunks_exact(4);
        let words = words.map(|word| {
            word.iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u32::from(*byte))
        });
        let mut found = Self::default();
        // The register with a number that instructions made, and the number.
        let mut known = None;
        for word in words {
            let (target, source) = (word & 31, word >> 5 & 31);
            let on_stack = source == SP;
            match word >> 22 {
                // addi.d
                0x00b if on_stack && target == SP => {
                    let step = signed(word >> 10, 12);
                    if step < 0 {
                        found.enlarge(step.unsigned_abs());
                    } else if found.size == 0 {
                        continue;
                    } else {
                        break;
                    }
                }
                // st.d
                0x0a7 if on_stack && target == 1 && found.size != 0 => {
                    found.kept = u64::try_from(signed(word >> 10, 12)).ok();
                }
                // ori
                0x00e => {
                    let base = match known {
                        _ if source == 0 => Some(0),
                        Some((register, number)) if register == source => Some(number),
                        _ => None,
                    };
                    let low = i64::from(word >> 10 & 0xfff);
                    known = base.map(|number| (target, number | low));
                }
                _ if word >> 25 == 0x0a => {
                    // lu12i.w
                    known = Some((target, signed(word >> 5, 20) << 12));
                }
                // add.d sp, sp, register
                _ if word & 0xffff_83ff == 0x0010_8063 => {
                    let (register, number) = known?;
                    if register != word >> 10 & 31 || number >= 0 {
                        return None;
                    }
                    found.enlarge(number.unsigned_abs());
                }
                // stptr.d
                _ if word >> 24 == 0x27 && on_stack && target == 1 && found.size != 0 => {
                    found.kept = u64::try_from(signed(word >> 10, 14) << 2).ok();
                }
                // Before the frame is made, a function may return early.
                _ if is_branch(word) && found.size != 0 => break,
                _ => {}
            }
        }
        Some(found)
    }

    /// Adds to the size, and so to the offset in the frame.
    fn enlarge(&mut self, by: u64) {
        self.size = self.size.saturating_add(by);
        self.kept = self.kept.map(|at| at.saturating_add(by));
    }
}

/// Returns the number in the low `bits` of `word`, in two's complement.
fn signed(word: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    i64::from((word << unused).cast_signed() >> unused)
}

/// Returns true for a jump, branch or call: beqz to bgeu.
fn is_branch(word: u32) -> bool {
    (0x10..=0x1b).contains(&(word >> 26))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[u32]) -> Option<Frame> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Frame::parse(&bytes)
    }

    const ADDI_32: u32 = 0x02ff_8063;
    const ADDI_2032: u32 = 0x02e0_4063;
    const ST_RA_24: u32 = 0x29c0_6061;
    const ST_RA_2024: u32 = 0x29df_a061;
    const BL: u32 = 0x5400_0000;

    #[test]
    fn frame_and_return_address_are_found_in_the_prologue() {
        let whole = Frame {
            size: 32,
            kept: Some(24),
        };
        assert_eq!(parse(&[ADDI_32, ST_RA_24, BL]), Some(whole));
        // Calls of the function tracer come before it.
        assert_eq!(parse(&[BL, ADDI_32, ST_RA_24]), Some(whole));
        assert_eq!(
            parse(&[ADDI_32]),
            Some(Frame {
                size: 32,
                kept: None
            })
        );
        // What follows a branch belongs to the body.
        assert_eq!(
            parse(&[ADDI_32, BL, ST_RA_24]),
            Some(Frame {
                size: 32,
                kept: None
            })
        );
        assert_eq!(parse(&[]), Some(Frame::default()));
        assert_eq!(parse(&[ST_RA_24]), Some(Frame::default()));
    }

    #[test]
    fn large_frames_are_made_in_steps() {
        let steps = [ADDI_2032, ST_RA_2024, ADDI_32];
        assert_eq!(
            parse(&steps),
            Some(Frame {
                size: 2064,
                kept: Some(2056)
            })
        );
        // lu12i.w t1, -2; ori t1, t1, 0x800; add.d sp, sp, t1: -6144.
        let (lu12i, ori, add) = (0x15ff_ffcd, 0x03a0_01ad, 0x0010_b463);
        assert_eq!(
            parse(&[ADDI_2032, ST_RA_2024, lu12i, ori, add]),
            Some(Frame {
                size: 2032 + 6144,
                kept: Some(2024 + 6144)
            })
        );
        assert_eq!(parse(&[ADDI_2032, ST_RA_2024, add]), None);
    }
}
