//! The notes of a Xen host's dump: what the hypervisor says about itself when it crashes
//! (xen/include/xen/elfcore.h and xen/common/kexec.c of Xen).
//!
//! A note named Xen has the hypervisor's version and the physical addresses of further facts,
//! one per CPU has its control registers, and one named VMCOREINFO_XEN has the hypervisor's own
//! VMCOREINFO.

use super::note::{Note, Notes};
use crate::address::{PageFrame, PhysAddr};
use crate::error::FormatError;

/// Name of the notes with binary contents.
const NAME: &[u8] = b"Xen";
/// Type of the note about the hypervisor (XEN_ELFNOTE_CRASH_INFO, xen/include/public/elfnote.h).
const CRASH_INFO: u32 = 0x0100_0001;
/// Type of the notes about the control registers of CPUs (XEN_ELFNOTE_CRASH_REGS).
const CRASH_REGS: u32 = 0x0100_0002;
/// Name of the note with the hypervisor's VMCOREINFO.
const VMCOREINFO_XEN: &[u8] = b"VMCOREINFO_XEN";

/// 64-bit words of the note, by the fields that versions of Xen added: without either, with
/// dom0_pfn_to_mfn_frame_list_list, and with xen_phys_start before it.
const WORDS: [usize; 3] = [8, 9, 10];
/// Major and minor version numbers are below this.
const VERSION_LIMIT: u64 = 1 << 16;

/// The note about the hypervisor (crash_xen_info_t). Addresses are machine addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashInfo {
    /// Major version of Xen.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
    /// Text: what follows the minor version, such as `.5`.
    pub extra_version: PhysAddr,
    /// Text: the changeset that it was built from.
    pub changeset: PhysAddr,
    /// Text: the compiler.
    pub compiler: PhysAddr,
    /// Text: the date of the build.
    pub compile_date: PhysAddr,
    /// Flags of what makes the hypervisor unreliable.
    pub tainted: u64,
    /// Address that the hypervisor's image was loaded for; old versions do not tell it.
    pub xen_phys_start: Option<PhysAddr>,
    /// The page that leads to dom0's table of frames; `None` if it has no such table.
    pub dom0_frame_lists: Option<PageFrame>,
}

/// Returns the note about the hypervisor; `None` if the dump is not of a Xen host.
///
/// # Errors
/// There is a note of that type, but not in a known layout.
pub fn crash_info(notes: Notes<'_>) -> Result<Option<CrashInfo>, FormatError> {
    let (endian, start) = (notes.endian(), notes.file_offset());
    let mut intact = notes.intact();
    let Some(note) = intact.find(|note| note.name == NAME && note.n_type == CRASH_INFO) else {
        return Ok(None);
    };
    let offset = start.saturating_add(note.desc_offset as u64);
    let count = note.desc.len() / 8;
    if !WORDS.contains(&count) || !note.desc.len().is_multiple_of(8) {
        return Err(FormatError::unexpected(
            "the note about the hypervisor (Xen, type 0x1000001)",
            offset,
            "64, 72 or 80 bytes",
            format!("{} bytes", note.desc.len()),
        ));
    }
    let word = |index: usize| endian.u64(note.desc, 8 * index).unwrap_or(0);
    let text = |index| PhysAddr(word(index));
    let (major, minor) = (word(0), word(1));
    if major >= VERSION_LIMIT || minor >= VERSION_LIMIT {
        return Err(FormatError::unexpected(
            "the version of Xen",
            offset,
            format!("numbers below {VERSION_LIMIT}"),
            format!("{major}.{minor}"),
        ));
    }
    let lists = match count {
        8 => None,
        _ => Some(word(count - 1)).filter(|frame| ![0, u64::MAX].contains(frame)),
    };
    Ok(Some(CrashInfo {
        major,
        minor,
        extra_version: text(2),
        changeset: text(3),
        compiler: text(4),
        compile_date: text(5),
        tainted: word(7),
        xen_phys_start: (count == 10).then(|| text(8)),
        dom0_frame_lists: lists.map(PageFrame),
    }))
}

/// Returns CR0, CR2, CR3 and CR4 of each CPU, in the order of the notes (crash_xen_core_t).
pub fn control_registers(notes: Notes<'_>) -> impl Iterator<Item = [u64; 4]> {
    let endian = notes.endian();
    let own = notes.intact();
    let own = own.filter(|note| note.name == NAME && note.n_type == CRASH_REGS);
    own.map(move |note| {
        let word = |index: usize| endian.u64(note.desc, 8 * index).unwrap_or(0);
        [word(0), word(1), word(2), word(3)]
    })
}

/// Returns the note with the hypervisor's VMCOREINFO, a text that zeros may follow.
pub fn vmcoreinfo<'a>(notes: Notes<'a>) -> Option<Note<'a>> {
    let mut intact = notes.intact();
    intact.find(|note| note.name == VMCOREINFO_XEN && !note.desc.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Endian;
    use crate::elf::note::encode;

    const ENDIAN: Endian = Endian::Little;

    fn note(words: &[u64]) -> Vec<u8> {
        let desc: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        encode(NAME, CRASH_INFO, &desc, ENDIAN)
    }

    fn parse(bytes: &[u8]) -> Result<Option<CrashInfo>, FormatError> {
        crash_info(Notes::new(bytes, ENDIAN, 0x1000))
    }

    #[test]
    fn each_layout_of_the_note_is_read() {
        let common = [4, 17, 2, 3, 4, 5, 6, 7];
        let old = parse(&note(&common)).unwrap().unwrap();
        assert_eq!((old.major, old.minor, old.tainted), (4, 17, 7));
        assert_eq!((old.xen_phys_start, old.dom0_frame_lists), (None, None));
        let middle = parse(&note(&[&common[..], &[9]].concat()))
            .unwrap()
            .unwrap();
        assert_eq!(middle.dom0_frame_lists, Some(PageFrame(9)));
        let new = parse(&note(&[&common[..], &[8, 9]].concat()))
            .unwrap()
            .unwrap();
        assert_eq!(new.xen_phys_start, Some(PhysAddr(8)));
        assert_eq!(new.dom0_frame_lists, Some(PageFrame(9)));
        let hvm = parse(&note(&[&common[..], &[8, u64::MAX]].concat()));
        assert_eq!(hvm.unwrap().unwrap().dom0_frame_lists, None);
    }

    #[test]
    fn note_of_another_layout_is_an_error_with_its_offset() {
        let error = parse(&note(&[4; 11])).unwrap_err().to_string();
        assert!(error.contains("0x1010"), "{error}");
        assert!(
            error.contains("expected 64, 72 or 80 bytes, found 88 bytes"),
            "{error}"
        );
        let error = parse(&note(&[1 << 40; 8])).unwrap_err().to_string();
        assert!(error.contains("the version of Xen"), "{error}");
    }

    #[test]
    fn dump_of_another_machine_has_no_such_note() {
        let other = encode(b"CORE", CRASH_INFO, &[0; 80], ENDIAN);
        assert_eq!(parse(&other).unwrap(), None);
        assert!(vmcoreinfo(Notes::new(&other, ENDIAN, 0)).is_none());
    }

    #[test]
    fn control_registers_are_those_of_each_cpu() {
        let words =
            |first: u64| -> Vec<u8> { (first..first + 4).flat_map(u64::to_le_bytes).collect() };
        let bytes = [
            encode(NAME, CRASH_REGS, &words(1), ENDIAN),
            encode(b"CORE", CRASH_REGS, &words(20), ENDIAN),
            encode(NAME, CRASH_REGS, &words(5), ENDIAN),
        ]
        .concat();
        let found: Vec<_> = control_registers(Notes::new(&bytes, ENDIAN, 0)).collect();
        assert_eq!(found, [[1, 2, 3, 4], [5, 6, 7, 8]]);
    }

    #[test]
    fn vmcoreinfo_of_the_hypervisor_is_found_by_its_name() {
        let bytes = [
            encode(b"VMCOREINFO", 0, b"OSRELEASE=6.1\n", ENDIAN),
            encode(VMCOREINFO_XEN, 0, b"PAGESIZE=4096\n", ENDIAN),
        ]
        .concat();
        let note = vmcoreinfo(Notes::new(&bytes, ENDIAN, 0)).unwrap();
        assert_eq!(note.desc, b"PAGESIZE=4096\n");
    }
}
