#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::io::Write;

use super::*;

/// Bytes before the first entry of a unit.
const UNIT_HEADER: usize = 11;

/// A vmlinux with these sections and nothing else.
fn vmlinux(
    info: &[u8],
    abbreviations: &[u8],
    strings: &[u8],
) -> (tempfile::NamedTempFile, Vmlinux) {
    let names = b"\0.debug_info\0.debug_abbrev\0.debug_str\0.shstrtab\0";
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(64, 0);
    let mut headers = vec![0; 64];
    for (name, bytes) in [
        (1_u32, info),
        (13, abbreviations),
        (27, strings),
        (38, names),
    ] {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[4] = 1;
        header[24..32].copy_from_slice(&(out.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        headers.extend(header);
        out.extend(bytes);
    }
    let table = out.len() as u64;
    out[40..48].copy_from_slice(&table.to_le_bytes());
    out[58..64].copy_from_slice(&[64, 0, 5, 0, 4, 0]);
    out.extend(headers);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&out).unwrap();
    let opened = Vmlinux::open(file.path()).unwrap();
    (file, opened)
}

/// A unit of DWARF 4 with these entries.
fn unit(entries: &[u8]) -> Vec<u8> {
    let mut out = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    out.extend([4, 0, 0, 0, 0, 0, 8]);
    out.extend(entries);
    out
}

/// An abbreviation with attributes and their forms, all below 128.
fn abbreviation(code: u8, tag: dw::DwTag, has_children: bool, attributes: &[(u8, u8)]) -> Vec<u8> {
    let mut out = vec![code, tag.0 as u8, has_children.into()];
    out.extend(attributes.iter().flat_map(|(name, form)| [*name, *form]));
    out.extend([0, 0]);
    out
}

const NAME: u8 = dw::DW_AT_name.0 as u8;
const TYPE: u8 = dw::DW_AT_type.0 as u8;
const COUNT: u8 = dw::DW_AT_count.0 as u8;
const STRP: u8 = dw::DW_FORM_strp.0 as u8;
const REF4: u8 = dw::DW_FORM_ref4.0 as u8;
const DATA1: u8 = dw::DW_FORM_data1.0 as u8;
const FLAG_PRESENT: u8 = dw::DW_FORM_flag_present.0 as u8;

/// 1 unit; 2 struct with a name; 3 member with a type; 4 array; 5 subrange with a count.
fn abbreviations() -> Vec<u8> {
    [
        abbreviation(1, dw::DW_TAG_compile_unit, true, &[]),
        abbreviation(2, dw::DW_TAG_structure_type, true, &[(NAME, STRP)]),
        abbreviation(3, dw::DW_TAG_member, false, &[(TYPE, REF4)]),
        abbreviation(4, dw::DW_TAG_array_type, true, &[]),
        abbreviation(5, dw::DW_TAG_subrange_type, false, &[(COUNT, DATA1)]),
        vec![0],
    ]
    .concat()
}

/// A struct, named by the string at `name`, of `members` arrays, of which each is the same one of
/// `subranges` dimensions.
fn arrays(name: u32, members: usize, subranges: usize) -> Vec<u8> {
    let mut entries = vec![1, 4];
    entries.extend([5, 1].repeat(subranges));
    entries.extend([0, 2]);
    entries.extend(name.to_le_bytes());
    let array = (UNIT_HEADER + 1) as u32;
    let member: Vec<u8> = [3].into_iter().chain(array.to_le_bytes()).collect();
    entries.extend(member.repeat(members));
    entries.extend([0, 0]);
    unit(&entries)
}

#[test]
fn members_and_their_types_are_found() {
    let (_file, vmlinux) = vmlinux(&arrays(0, 3, 2), &abbreviations(), b"outer\0");
    let dwarf = Dwarf::open(&vmlinux).unwrap().unwrap();
    let outer = dwarf.find(Named::Struct, "outer").unwrap().unwrap();
    let members = dwarf.members(outer).unwrap();
    assert_eq!(members.len(), 3);
    let found = dwarf.get(members[2].type_id).unwrap();
    assert_eq!(found.shape, Shape::Array(TypeId::VOID, 1));
}

#[test]
fn names_longer_than_those_of_any_kernel_are_not_kept() {
    let strings = [vec![b'a'; 600], vec![0]].concat();
    for (name, is_kept) in [(0, false), (100, true)] {
        let (_file, vmlinux) = vmlinux(&arrays(name, 1, 1), &abbreviations(), &strings);
        let dwarf = Dwarf::open(&vmlinux).unwrap().unwrap();
        let name = "a".repeat(600 - name as usize);
        let found = dwarf.find(Named::Struct, &name).unwrap();
        assert_eq!(found.is_some(), is_kept, "{}", name.len());
    }
}

#[test]
fn work_for_types_is_in_proportion_to_their_size() {
    const DIMENSIONS: usize = 20_000;
    let info = arrays(0, 1, DIMENSIONS);
    let (_file, vmlinux) = vmlinux(&info, &abbreviations(), b"outer\0");
    let dwarf = Dwarf::open(&vmlinux).unwrap().unwrap();
    let most = FREE_STEPS + STEPS_PER_BYTE * info.len() as u64;
    let array = TypeId(UNIT_HEADER as u64 + 1);
    let mut gets = 0;
    let error = loop {
        match dwarf.get(array) {
            Ok(_) => gets += 1,
            Err(error) => break error,
        }
        assert!(gets * DIMENSIONS as u64 <= most, "{gets} walks");
    };
    assert!(error.to_string().contains("more steps"), "{error}");
}

#[test]
fn units_do_not_share_a_long_table_of_abbreviations() {
    const UNITS: usize = 20_000;
    let codes = (1..=5000_u16).flat_map(|code| {
        let code = [0x80 | code as u8, (code >> 7) as u8];
        [&code[..], &[0x11, 0, 0, 0]].concat()
    });
    let table: Vec<u8> = codes.chain([0]).collect();
    let (_file, vmlinux) = vmlinux(&unit(&[0x81, 0]).repeat(UNITS), &table, &[]);
    let error = Dwarf::open(&vmlinux).err().unwrap().to_string();
    assert!(error.contains("more steps"), "{error}");
    // One of them may have it.
    let (_file, vmlinux) = self::vmlinux(&unit(&[0x81, 0]), &table, &[]);
    assert!(Dwarf::open(&vmlinux).is_ok());
}

#[test]
fn attributes_that_take_no_bytes_are_limited() {
    for (count, is_refused) in [(64, false), (65, true)] {
        let attributes = vec![(NAME, FLAG_PRESENT); count];
        let mut table = abbreviation(1, dw::DW_TAG_compile_unit, false, &attributes);
        table.push(0);
        let (_file, vmlinux) = vmlinux(&unit(&[1]), &table, &[]);
        assert_eq!(Dwarf::open(&vmlinux).is_err(), is_refused, "{count}");
    }
}

#[test]
fn unit_that_is_not_in_the_file_is_an_error() {
    let mut info = unit(&[0]);
    info[..4].copy_from_slice(&(200_u32 << 20).to_le_bytes());
    let (file, _) = vmlinux(&info, &abbreviations(), &[]);
    // The section claims as much.
    let mut bytes = std::fs::read(file.path()).unwrap();
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    bytes[table + 64 + 32..][..8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    std::fs::write(file.path(), bytes).unwrap();
    let vmlinux = Vmlinux::open(file.path()).unwrap();
    let error = Dwarf::open(&vmlinux).err().unwrap().to_string();
    assert!(error.contains("a unit of DWARF"), "{error}");
}
