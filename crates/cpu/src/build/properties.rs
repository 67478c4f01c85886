//! Properties that hold for the domains of any machine.

use fixedbitset::FixedBitSet;
use proptest::prelude::*;

use super::groups::ring;
use super::*;

/// Description of a machine, with distances of all kinds, and its online and isolated CPUs.
#[derive(Clone, Debug)]
struct Case {
    words: String,
    online: Vec<bool>,
    isolated: Vec<bool>,
    rules: Rules,
}

impl Case {
    fn parts(&self) -> (Topology, CpuList, CpuList) {
        let topology = Topology::from_text(&self.words).unwrap();
        let count = topology.cpu_count();
        let list = |bits: &[bool]| -> CpuList {
            let all = bits.iter().cycle().take(count).zip(0_u32..);
            all.filter_map(|(is, cpu)| is.then_some(cpu)).collect()
        };
        (topology, list(&self.online), list(&self.isolated))
    }
}

/// Returns rows of distances: none, symmetric, or arbitrary.
fn distances(nodes: usize) -> impl Strategy<Value = Option<String>> {
    let number = prop_oneof![Just(12_u32), Just(20), Just(21), Just(30), Just(40)];
    let rows = prop::collection::vec(prop::collection::vec(number, nodes), nodes);
    (0..3_u8, rows).prop_map(move |(kind, rows)| {
        let at = |from: usize, to: usize| match (from == to, kind) {
            (true, _) => 10,
            (false, 1) => rows[from.min(to)][from.max(to)],
            (false, _) => rows[from][to],
        };
        let row = |from: usize| {
            let row: Vec<String> = (0..nodes).map(|to| at(from, to).to_string()).collect();
            row.join(",")
        };
        (kind > 0).then(|| (0..nodes).map(row).collect::<Vec<_>>().join(";"))
    })
}

fn case() -> impl Strategy<Value = Case> {
    let shape = (
        1..=5_usize,
        1..=2_usize,
        1..=2_usize,
        0..=2_usize,
        1..=2_usize,
        1..=4_usize,
    );
    let rest = (
        any::<bool>(),
        prop::collection::vec(prop::bool::weighted(0.7), 1..40),
        prop::collection::vec(prop::bool::weighted(0.1), 1..40),
        0..3_u8,
        any::<bool>(),
    );
    let with_distances = |shape: (usize, usize, usize, usize, usize, usize)| {
        (Just(shape), distances(shape.0 * shape.1))
    };
    (shape.prop_flat_map(with_distances), rest).prop_map(
        |(((sockets, numa, caches, clusters, cores, threads), distances), rest)| {
            let (adjacent, mut online, isolated, architecture, new) = rest;
            online[0] = true;
            let cores = cores * numa * caches * clusters.max(1);
            let mut words = format!(
                "sockets={sockets} numa={numa} caches={caches} clusters={clusters} cores={cores} threads={threads}"
            );
            if let Some(distances) = distances {
                words += &format!(" distances={distances}");
            }
            if !adjacent {
                words += " numbering=cores";
            }
            let rules = if new { Rules::LINUX_6_12 } else { Rules::LINUX_6_1 };
            let architectures = [Architecture::X86, Architecture::Power, Architecture::Generic];
            Case {
                words,
                online,
                isolated,
                rules: rules.on(architectures[usize::from(architecture)]),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn spans_contain_their_cpu_and_are_nested(case in case()) {
        let (topology, online, isolated) = case.parts();
        let built = build_apart(&topology, &online, &isolated, &case.rules);
        for (cpu, chain) in (0_u32..).zip(&built) {
            if !online.contains(cpu) || isolated.contains(cpu) {
                prop_assert!(chain.is_empty());
            }
            let mut below = CpuList::default();
            for (number, domain) in chain.iter().enumerate() {
                let span = domain.span.clone().unwrap();
                prop_assert_eq!((domain.cpu, domain.number), (cpu, number));
                prop_assert!(span.contains(cpu), "cpu{} {}", cpu, span);
                prop_assert!(span.without(&online).is_empty());
                prop_assert!(span.and(&isolated).is_empty());
                // A domain equal to the one below, or with one CPU, is degenerate.
                prop_assert!(below.without(&span).is_empty());
                prop_assert!(span.len() > below.len().max(1), "cpu{} {} in {}", cpu, below, span);
                below = span;
            }
        }
    }

    #[test]
    fn groups_cover_their_domain(case in case()) {
        let (topology, online, isolated) = case.parts();
        let (levels, chains) = chains(&topology, &online, &isolated, &case.rules);
        for (cpu, chain) in chains.iter().enumerate() {
            for (index, domain) in chain.iter().enumerate() {
                let groups = ring(&chains, &levels, cpu, index);
                let first = domain.group.clone().unwrap();
                prop_assert_eq!(&first.span, &groups[0]);
                prop_assert!(groups[0].contains(cpu));
                prop_assert_eq!(first.has_siblings, groups.len() > 1);
                let mut covered = FixedBitSet::with_capacity(domain.span.len());
                for group in &groups {
                    let overlaps = !covered.is_disjoint(group);
                    prop_assert!(!overlaps || levels[domain.level].overlap);
                    prop_assert!(group.is_subset(&domain.span));
                    covered.union_with(group);
                }
                // A CPU without a domain at this level contributes no group: the firmware's
                // distances are asymmetric there.
                let all_reach = domain.span.ones().all(|member| chains[member].len() > index);
                prop_assert!(!all_reach || covered == *domain.span);
            }
        }
    }

    #[test]
    fn described_machines_are_sane_and_work_counts_match_the_domains(case in case()) {
        let (topology, online, _) = case.parts();
        prop_assert_eq!(insane(&topology, &online, &case.rules), []);
        let work = work(&topology, &online, &case.rules);
        let built = build(&topology, &online, &case.rules);
        let shown: usize = built.iter().map(Vec::len).sum();
        prop_assert_eq!(work.shown, shown as u64);
        prop_assert_eq!(work.cpus, online.len());
        for (kinds, chain) in work.kinds.iter().zip(&built) {
            let levels: Vec<_> = kinds.iter().map(|kind| Some(kind.level)).collect();
            let expected: Vec<_> = chain.iter().map(|domain| domain.level).collect();
            prop_assert_eq!(levels, expected);
        }
    }

    #[test]
    fn both_span_checks_agree(
        sets in prop::collection::vec(prop::collection::vec(any::<bool>(), 6), 6),
        like in prop::collection::vec(0..6_usize, 6),
    ) {
        // Each CPU is in its own set. Some sets are copied, so that sane cases occur.
        let set = |cpu: usize| {
            let mut set = FixedBitSet::with_capacity(6);
            set.extend((0..6).filter(|other| sets[like[cpu]][*other] && like[*other] == like[cpu]));
            set.extend(sets[cpu][0].then_some((cpu + 1) % 6));
            set.insert(cpu);
            set
        };
        let sets: Vec<FixedBitSet> = (0..6).map(set).collect();
        let masks: Vec<_> = sets.iter().enumerate().collect();
        prop_assert_eq!(pairs_are_sane(&masks), once_is_sane(&masks));
    }
}

/// Returns the groups of a node's domain on a machine drawn in kernel/sched/topology.c, with
/// one CPU per node.
fn groups(distances: &str, node: usize, span: &str) -> Vec<String> {
    let nodes = distances.split(';').count();
    let words = format!("sockets={nodes} distances={distances}");
    let topology = Topology::from_text(&words).unwrap();
    let online = (0..nodes as u32).collect();
    let (levels, chains) = chains(&topology, &online, &CpuList::default(), &Rules::LINUX_6_1);
    let list = |set: &FixedBitSet| -> String {
        let cpus: CpuList = set.ones().map(|cpu| cpu as u32).collect();
        cpus.to_string()
    };
    let is_it = |domain: &Domain| levels[domain.level].overlap && list(&domain.span) == span;
    let index = chains[node].iter().position(is_it).unwrap();
    ring(&chains, &levels, node, index)
        .iter()
        .map(|set| list(set))
        .collect()
}

#[test]
fn groups_match_the_drawings_in_the_kernel_source() {
    let four_in_a_ring = "10,20,30,20;20,10,20,30;30,20,10,20;20,30,20,10";
    assert_eq!(groups(four_in_a_ring, 0, "0-3"), ["0-1,3", "1-3"]);
    assert_eq!(groups(four_in_a_ring, 0, "0-1,3"), ["0", "1", "3"]);
    assert_eq!(groups(four_in_a_ring, 2, "0-3"), ["1-3", "0-1,3"]);
    let asymmetric = "10,20,20,30;20,10,20,20;20,20,10,20;30,20,20,10";
    assert_eq!(groups(asymmetric, 0, "0-3"), ["0-2", "1-3"]);
    assert_eq!(groups(asymmetric, 3, "0-3"), ["1-3", "0-2"]);
    let chain = "10,20,30,40;20,10,20,30;30,20,10,20;40,30,20,10";
    assert_eq!(groups(chain, 0, "0-3"), ["0-2", "1-3"]);
    assert_eq!(groups(chain, 1, "0-3"), ["0-2", "2-3"]);
    assert_eq!(groups(chain, 1, "0-2"), ["1", "2", "0"]);
    // The sibling's set would extend beyond the domain, so a smaller one is used
    // (585b6d2723dc).
    assert_eq!(groups(chain, 0, "0-2"), ["0-1", "2"]);
}
