//! Scheduler domains as a table: a line for each level and kind of domain.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::domains::{SchedDomain, Tunables};
use crate::tree::DomainTree;

/// Common properties of the domains of one line. Ordered by level, then by name and size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    number: usize,
    name: String,
    cpus: usize,
    tunables: Option<[u64; 5]>,
    flags: Option<Vec<String>>,
}

/// Returns a line for each kind of domain: level, number of CPUs that have one, size, tunables
/// and flags.
pub fn table(tree: &DomainTree) -> String {
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    for domain in tree.cpus.values().flatten() {
        *kinds.entry(kind(domain)).or_default() += 1;
    }
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:>5} {:<8} {:>6} {:>6} {:>8} {:>8} {:>6} {:>9} {:>6}  flags",
        "level", "name", "CPUs", "size", "min ms", "max ms", "busy", "imbalance", "cache"
    );
    for (kind, cpus) in kinds {
        let size = match kind.cpus {
            0 => "?".to_owned(),
            size => size.to_string(),
        };
        let _ = write!(
            out,
            "{:>5} {:<8} {cpus:>6} {size:>6}",
            kind.number, kind.name
        );
        let values = kind
            .tunables
            .map(|values| values.map(|value| value.to_string()));
        let [min, max, busy, imbalance, cache] =
            values.unwrap_or_else(|| std::array::from_fn(|_| "-".to_owned()));
        let _ = write!(
            out,
            " {min:>8} {max:>8} {busy:>6} {imbalance:>9} {cache:>6}"
        );
        let flags = kind.flags.map(|flags| {
            let short = flags
                .iter()
                .map(|flag| flag.strip_prefix("SD_").unwrap_or(flag));
            short.collect::<Vec<_>>().join(" ")
        });
        let _ = writeln!(out, "  {}", flags.as_deref().unwrap_or("-"));
    }
    out
}

fn kind(domain: &SchedDomain) -> Kind {
    let values = |tunables: &Tunables| tunables.named().map(|(_, value)| value);
    Kind {
        number: domain.number,
        name: domain.title().into_owned(),
        cpus: domain.span.as_ref().map_or(0, |span| span.len()),
        tunables: domain.tunables.as_ref().map(values),
        flags: domain.flags.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_of_one_kind_share_a_line() {
        let domain = |cpu: u32, span: &str| SchedDomain {
            cpu,
            name: Some("SMT".into()),
            span: Some(span.parse().unwrap()),
            flags: Some(vec!["SD_NUMA".into(), "0x8000".into()]),
            ..SchedDomain::default()
        };
        let tree = DomainTree {
            cpus: (0..4)
                .zip(["0-1", "0-1", "2-3", "2-3"])
                .map(|(cpu, span)| (cpu, vec![domain(cpu, span)]))
                .collect(),
            ..DomainTree::default()
        };
        let table = table(&tree);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 2);
        let words: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!(
            words,
            [
                "0", "SMT", "4", "2", "-", "-", "-", "-", "-", "NUMA", "0x8000"
            ]
        );
    }
}
