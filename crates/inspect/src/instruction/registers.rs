//! The registers of x86-64 at a fault.

use iced_x86::Register;

/// Values of registers, by the names that the kernel prints: `RAX`, `R08`.
#[derive(Clone, Debug, Default)]
pub struct Registers(Vec<(String, u64)>);

impl Registers {
    /// The registers of a report.
    pub fn new(values: &[(String, u64)]) -> Self {
        Self(values.to_vec())
    }

    /// The value of the 64-bit register that `register` is a part of.
    pub(super) fn value(&self, register: Register) -> Option<u64> {
        let name = printed(register.full_register());
        let found = self.0.iter().find(|(known, _)| *known == name)?;
        Some(found.1)
    }
}

/// The name that the kernel prints.
fn printed(register: Register) -> String {
    match register {
        Register::R8 => "R08".into(),
        Register::R9 => "R09".into(),
        _ => format!("{register:?}"),
    }
}

/// The name in AT&T syntax, `%rax`.
pub(super) fn name(register: Register) -> String {
    format!("%{register:?}").to_ascii_lowercase()
}

/// Returns true for a segment whose addresses do not begin at 0.
pub(super) fn has_base(segment: Register) -> bool {
    matches!(segment, Register::FS | Register::GS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_register_are_known_by_its_printed_name() {
        let registers = Registers::new(&[("RAX".into(), 1), ("R08".into(), 2), ("R12".into(), 3)]);
        for (register, expected) in [
            (Register::AL, Some(1)),
            (Register::R8D, Some(2)),
            (Register::R12, Some(3)),
            (Register::RBX, None),
        ] {
            assert_eq!(registers.value(register), expected);
        }
        assert_eq!(name(Register::R8), "%r8");
    }
}
