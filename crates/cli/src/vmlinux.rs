//! Checks that a vmlinux is the kernel of a dump.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bigiron_format::ReadAt;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::{Notes, SIGNATURE};
use bigiron_format::vmcoreinfo::Vmcoreinfo;

/// Name and type of the build id note (NT_GNU_BUILD_ID, elf.h).
const BUILD_ID: (&[u8], u32) = (b"GNU", 3);
const PT_NOTE: u32 = 4;
/// Sizes of a 64-bit ELF header and program header.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// Maximum size of the notes; a kernel has a few KiB.
const MAX_NOTES: u64 = 1 << 20;
/// Prefix of the release in linux_banner (init/version.c).
const BANNER: &[u8] = b"Linux version ";
const READ_BYTES: usize = 1 << 20;
/// Maximum length of a release.
const MAX_RELEASE: usize = 64;

/// Returns true if the file `path` is the vmlinux of the kernel with this VMCOREINFO: by build id
/// if both have one, else by release.
pub fn is_of(path: &Path, info: &Vmcoreinfo) -> anyhow::Result<bool> {
    let file = File::open(path)?;
    match (build_id(&file)?, info.value("BUILD-ID")) {
        (Some(own), Some(dumped)) => Ok(own == dumped.to_ascii_lowercase()),
        _ => Ok(names_release(file, info.release().unwrap_or_default())?),
    }
}

/// Returns the message for a file that is not the vmlinux of the kernel with this VMCOREINFO.
pub fn mismatch(path: &Path, info: &Vmcoreinfo) -> String {
    format!(
        "{} is not the kernel of the dump, which is of Linux {}",
        path.display(),
        info.release().unwrap_or_default()
    )
}

/// Returns the build id of an ELF file, in hexadecimal.
fn build_id(file: &File) -> anyhow::Result<Option<String>> {
    let size = file.metadata()?.len();
    let bytes = FileBytes(file, size);
    let mut header = [0; HEADER];
    bytes.read_exact_at("the ELF header", 0, &mut header)?;
    anyhow::ensure!(
        header.starts_with(&SIGNATURE) && header[4] == 2,
        "not a 64-bit ELF file"
    );
    let endian = if header[5] == 2 {
        Endian::Big
    } else {
        Endian::Little
    };
    let table = endian.u64(&header, 32).unwrap_or(0);
    let count = u64::from(endian.u32(&header, 56).unwrap_or(0) & 0xffff);
    for index in 0..count {
        let mut entry = [0; PROGRAM_HEADER];
        let at = table.saturating_add(index * PROGRAM_HEADER as u64);
        bytes.read_exact_at("a program header", at, &mut entry)?;
        let field = |offset| endian.u64(&entry, offset).unwrap_or(0);
        if endian.u32(&entry, 0) != Some(PT_NOTE) || field(32) > MAX_NOTES {
            continue;
        }
        let notes = bytes.read_vec_at("the notes", field(8), field(32))?;
        for note in Notes::new(&notes, endian, field(8)) {
            let note = note?;
            if (note.name, note.n_type) == BUILD_ID {
                let digits = note.desc.iter().map(|byte| format!("{byte:02x}"));
                return Ok(Some(digits.collect()));
            }
        }
    }
    Ok(None)
}

/// Returns true if the kernel's banner names `release`.
fn names_release(mut file: File, release: &str) -> std::io::Result<bool> {
    let wanted = [BANNER, release.as_bytes(), b" "].concat();
    let mut window = Vec::with_capacity(READ_BYTES + BANNER.len() + MAX_RELEASE);
    loop {
        let read = (&mut file)
            .take(READ_BYTES as u64)
            .read_to_end(&mut window)?;
        if window.windows(wanted.len()).any(|bytes| bytes == wanted) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        let keep = window.len().saturating_sub(wanted.len());
        window.drain(..keep);
    }
}

struct FileBytes<'a>(&'a File, u64);

impl ReadAt for FileBytes<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self.0, buf, offset)
    }

    fn size(&self) -> u64 {
        self.1
    }
}
