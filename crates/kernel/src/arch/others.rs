//! Architectures that are not supported, with the programs that read their dumps.

use super::names;

/// ELFCLASS32.
const CLASS_32: u8 = 1;

/// A machine whose dumps are refused.
struct Other {
    /// Name for messages.
    name: &'static str,
    /// Names that `uname -m` prints.
    machines: &'static [&'static str],
    /// `e_machine` of its ELF cores.
    elf_machine: u16,
    /// Programs that read its dumps.
    readers: &'static str,
}

/// The architectures for which makedumpfile or crash can be built (arch/ of makedumpfile,
/// configure.c of crash).
const OTHERS: &[Other] = &[
    Other {
        name: "32-bit x86",
        machines: &["i386", "i486", "i586", "i686"],
        elf_machine: 3,
        readers: "makedumpfile, and crash built with target=X86",
    },
    Other {
        name: "32-bit Arm",
        machines: &["armv5tel", "armv6l", "armv7l", "armv8l"],
        elf_machine: 40,
        readers: "makedumpfile, and crash built with target=ARM",
    },
    Other {
        name: "32-bit PowerPC",
        machines: &["ppc"],
        elf_machine: 20,
        readers: "makedumpfile, and crash built with target=PPC",
    },
    Other {
        name: "MIPS",
        machines: &["mips", "mips64"],
        elf_machine: 8,
        readers: "makedumpfile, and crash built with target=MIPS64",
    },
    Other {
        name: "SPARC64",
        machines: &["sparc64"],
        elf_machine: 43,
        readers: "makedumpfile, and crash built with target=SPARC64",
    },
    Other {
        name: "Itanium",
        machines: &["ia64"],
        elf_machine: 50,
        readers: "makedumpfile, and crash built with target=IA64",
    },
];

/// Describes a dump of the machine that `uname -m` calls `machine`; `None` unless it is one of
/// those that are known not to be supported.
pub fn refusal(machine: &str) -> Option<String> {
    let mut others = OTHERS.iter();
    let other = others.find(|other| other.machines.contains(&machine))?;
    Some(describe(other))
}

/// Describes an ELF core of a machine that is not supported, by its `e_machine` and class;
/// `None` if the machine is supported.
pub fn refusal_of_elf(machine: u16, class: u8) -> Option<String> {
    if let Some(other) = OTHERS.iter().find(|other| other.elf_machine == machine) {
        return Some(describe(other));
    }
    match (super::find_elf(machine), class) {
        (Some(known), CLASS_32) => Some(format!(
            "a 32-bit core of {} (byte 4); no kernel writes one; this build knows {}",
            known.name,
            names()
        )),
        (Some(_), _) => None,
        (None, _) => Some(format!(
            "a core of ELF machine {machine} (e_machine at offset 18); this build knows {}",
            names()
        )),
    }
}

fn describe(other: &Other) -> String {
    format!(
        "a dump of {}; this build knows {}. Read it with {}",
        other.name,
        names(),
        other.readers
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_machines_are_named_with_the_programs_that_read_their_dumps() {
        let text = refusal("i686").unwrap_or_default();
        assert!(text.starts_with("a dump of 32-bit x86; this build knows x86_64"));
        assert!(text.contains("makedumpfile"));
        assert_eq!(refusal_of_elf(3, 1), Some(text));
        assert_eq!(refusal_of_elf(62, 2), None);
        assert!(refusal_of_elf(62, 1).is_some());
        assert_eq!(refusal("x86_64"), None);
    }
}
