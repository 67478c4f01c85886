//! Arbitrary text as a list or a mask of CPUs: accepted text is written as the kernel writes
//! it, and parsed to the same value.
#![no_main]

use bigiron_cpu::CpuList;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for parsed in [text.parse::<CpuList>(), CpuList::from_mask(text)] {
        let Ok(list) = parsed else { continue };
        let written = list.to_string();
        assert_eq!(written.parse().as_ref(), Ok(&list), "{written}");
        let cpus: Vec<u32> = list.iter().collect();
        assert_eq!((cpus.len(), cpus.is_empty()), (list.len(), list.is_empty()));
        assert!(cpus.is_sorted() && cpus.last().is_none_or(|last| *last < 1 << 16));
        assert!(cpus.iter().all(|cpu| list.contains(*cpu)));
        assert_eq!(cpus.into_iter().collect::<CpuList>(), list);
        assert_eq!(list.and(&list), list);
        assert!(list.without(&list).is_empty());
    }
});
