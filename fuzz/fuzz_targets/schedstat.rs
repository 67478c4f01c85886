//! Arbitrary text as /proc/schedstat: accepted text becomes domains that can be shown in every
//! form.
#![no_main]

use bigiron_cpu::show::{self, Detail};
use bigiron_cpu::source::Schedstat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(tree) = Schedstat::at("text").parse(text) else {
        return;
    };
    for (cpu, chain) in &tree.cpus {
        for (number, domain) in chain.iter().enumerate() {
            assert_eq!((domain.cpu, domain.number), (*cpu, number));
            assert!(domain.span.is_some());
        }
    }
    show::text(&tree, Detail::Alike);
    show::table(&tree);
    show::dot(&tree);
    let picture = show::picture(&tree);
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    assert!(show::changes(&tree, &tree).is_empty());
});
