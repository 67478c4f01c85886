//! Symbol tables that claim more than a kernel has.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::symbols::kallsyms;
use bigiron_kernel::{KernelError, KernelMemory};

const NAMES: u64 = 0x1000_0000;
const COUNT: u64 = 0x2000_0000;
const TOKENS: u64 = 0x3000_0000;
const INDEX: u64 = 0x4000_0000;

/// A kernel whose names all consist of one byte, which stands for a token of 1001 characters.
struct LongNames {
    info: Vmcoreinfo,
    tokens: Vec<u8>,
    index: Vec<u8>,
}

impl LongNames {
    fn new() -> Self {
        let (mut tokens, mut index) = (Vec::new(), Vec::new());
        for byte in 0..=255_u8 {
            index.extend((tokens.len() as u16).to_le_bytes());
            match byte {
                b'A' => tokens.extend([b'T'; 1001]),
                _ => tokens.push(byte.max(1)),
            }
            tokens.push(0);
        }
        let text = format!(
            "SYMBOL(kallsyms_names)={NAMES:x}\nSYMBOL(kallsyms_num_syms)={COUNT:x}\n\
             SYMBOL(kallsyms_token_table)={TOKENS:x}\nSYMBOL(kallsyms_token_index)={INDEX:x}\n"
        );
        Self {
            info: Vmcoreinfo::parse(text.as_bytes(), 0).unwrap(),
            tokens,
            index,
        }
    }
}

impl KernelMemory for LongNames {
    fn info(&self) -> &Vmcoreinfo {
        &self.info
    }

    fn endian(&self) -> Endian {
        Endian::Little
    }

    fn read(&self, _: &'static str, address: VirtAddr, buf: &mut [u8]) -> Result<(), KernelError> {
        let copy = |bytes: &[u8], from: u64, buf: &mut [u8]| {
            for (at, byte) in buf.iter_mut().enumerate() {
                *byte = bytes.get(from as usize + at).copied().unwrap_or(0);
            }
        };
        match address.0 {
            INDEX.. => copy(&self.index, address.0 - INDEX, buf),
            TOKENS.. => copy(&self.tokens, address.0 - TOKENS, buf),
            COUNT.. => copy(&(4_u32 << 20).to_le_bytes(), address.0 - COUNT, buf),
            _ => (0..)
                .zip(buf)
                .for_each(|(at, byte)| *byte = [1, b'A'][at % 2]),
        }
        Ok(())
    }
}

#[test]
fn total_length_of_names_is_bounded() {
    let error = kallsyms::read(&LongNames::new()).unwrap_err();
    assert!(error.to_string().contains("all names"), "{error}");
}
