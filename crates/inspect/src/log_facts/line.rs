//! Lines that state facts.

/// Release and version in `Linux version 6.1.0 (builder) (compiler) #1 SMP …`.
pub fn booted(text: &str) -> Option<(&str, Option<&str>)> {
    let rest = text.strip_prefix("Linux version ")?;
    let (release, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let version = rest.rfind(" #").map(|at| &rest[at + 1..]);
    Some((release, version))
}

/// The machine in `DMI: …, BIOS …`, `Hardware name: …` and `Machine model: …`.
pub fn machine(text: &str) -> Option<&str> {
    let known = ["DMI: ", "Hardware name: ", "Machine model: "];
    let name = known.iter().find_map(|label| {
        let rest = text.trim_start().strip_prefix(label)?;
        // Of the firmware of EFI: `efi: … ` precedes nothing, `DMI: Memory slots` is no machine.
        (!rest.starts_with("Memory slots")).then_some(rest)
    })?;
    let name = name.split(", BIOS ").next().unwrap_or(name).trim();
    (!name.is_empty()).then_some(name)
}

/// The taint letters, sorted, and the release in `… Tainted: G        W  O  6.1.0 #1 …` and
/// `… Not tainted 6.1.0 #1 …`.
pub fn tainted(text: &str) -> Option<(String, Option<&str>)> {
    if !text.contains(" Comm: ") && !text.starts_with("Tainted: ") {
        return None;
    }
    if let Some((_, rest)) = text.split_once(" Not tainted") {
        return Some((String::new(), rest.split_whitespace().next()));
    }
    let (_, rest) = text.split_once(" Tainted: ")?;
    let mut letters = Vec::new();
    let mut words = rest.split_whitespace();
    let release = words.by_ref().find(|word| {
        let is_letters = word.bytes().all(|byte| byte.is_ascii_uppercase());
        if is_letters {
            letters.extend(word.bytes().map(char::from));
        }
        !is_letters
    });
    letters.sort_unstable();
    letters.dedup();
    Some((letters.into_iter().collect(), release))
}

/// The list in `Modules linked in: …`.
pub fn modules(text: &str) -> Option<&str> {
    text.trim_start().strip_prefix("Modules linked in:")
}

/// Returns true for a line that has names of modules alone.
pub fn goes_on_with_modules(text: &str) -> bool {
    let before = text.split('[').next().unwrap_or(text);
    let mut words = before.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| module_name(word).is_some())
}

/// The names in a list, without flags, up to `[last unloaded: …]`.
pub fn module_names(list: &str) -> impl Iterator<Item = &str> {
    let before = list.split('[').next().unwrap_or(list);
    before.split_whitespace().filter_map(module_name)
}

/// `name` of `name` and `name(OE)`.
fn module_name(word: &str) -> Option<&str> {
    let (name, flags) = word.split_once('(').unwrap_or((word, ")"));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let flags = flags.strip_suffix(')')?;
    let has_flags = (flags.bytes()).all(|b| b.is_ascii_uppercase() || matches!(b, b'+' | b'-'));
    (!name.is_empty() && name.bytes().all(is_name) && has_flags).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taint_and_release_are_told_apart() {
        let line = "CPU: 0 UID: 0 PID: 1 Comm: sh Not tainted 6.12.0 #1 Debian";
        assert_eq!(tainted(line), Some((String::new(), Some("6.12.0"))));
        let line = "CPU: 0 PID: 1 Comm: sh Tainted: P           OE     5.4.0-1 #1";
        assert_eq!(tainted(line), Some(("EOP".to_owned(), Some("5.4.0-1"))));
        assert_eq!(tainted("the log is Tainted: by words"), None);
    }

    #[test]
    fn lists_of_modules_end_where_other_text_begins() {
        assert!(goes_on_with_modules("sunrpc xfs(OE+)"));
        for other in ["", "CPU: 1 PID: 87", "CR2: 0000000000000008", "[last"] {
            assert!(!goes_on_with_modules(other), "{other}");
        }
        let names: Vec<_> = module_names(" a(O) b [last unloaded: c]").collect();
        assert_eq!(names, ["a", "b"]);
    }
}
