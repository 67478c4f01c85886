//! makedumpfile -X keeps the same pages of a Xen host, apart from those that it is wrong about.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::process::Command;

use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::{SECTION_FRAMES, Source};
use bigiron_synth::{XenHost, XenOwner};

const MEMORY: &str = "
    ram 0x0-0x9f 0x100-0x2fff
    io 0x0 n=160
    dom0 0x1000 n=1536 ; domain 1 0x1600 n=256 ; domain 300 0x1800 n=300
    heap 0x1a00 n=33 ; stray 0x1c00 n=5
    free 0x2000 n=2048 ; free 0x1b01 n=7 scrub
    offlined 0x2900 n=3 ; broken 0x2910 n=2";

/// Returns the page frames in the dump that makedumpfile makes; `None` if it is not installed.
fn kept(host: &XenHost) -> Option<Vec<u64>> {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("in"), host.elf()).unwrap();
    let mut command = Command::new("makedumpfile");
    let run = command
        .args(["-X", "-l", "-d", "0"])
        .args([path("in"), path("out")])
        .output();
    let run = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        run => run.unwrap(),
    };
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(run.status.success(), "{said}");
    let source = Source::open(&[path("out")]).unwrap();
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    let mut frames = Vec::new();
    for first in source.memory().sections() {
        source.memory().present(first, &mut bits).unwrap();
        frames.extend(
            (0..bits.len())
                .filter(|bit| bits.get(*bit))
                .map(|bit| first.0 + bit as u64),
        );
    }
    Some(frames)
}

#[test]
fn makedumpfile_keeps_the_same_pages_where_it_knows_the_layout() {
    for (header, knows_states) in [("xen 4.4", true), ("xen 4.14", true), ("xen 4.17", false)] {
        let host = XenHost::from_text(&format!("{header}\n{MEMORY}")).unwrap();
        let Some(kept) = kept(&host) else { return };
        let expected = |frame: &u64| match host.owner(*frame) {
            XenOwner::Hypervisor | XenOwner::Heap | XenOwner::Domain(0) => true,
            // It drops what the hypervisor keeps for itself, and what has an unknown owner.
            XenOwner::Io | XenOwner::Stray | XenOwner::Domain(_) => false,
            // It looks for the states at their old place; the flag of a page to scrub is that of
            // an allocated one, whose owner is then 0.
            XenOwner::Free | XenOwner::Unscrubbed => !knows_states,
            XenOwner::Offlined | XenOwner::Broken => !knows_states,
        };
        let ram = host.ram().iter().cloned().flatten();
        let wrong: Vec<_> = ram
            .filter(|frame| kept.contains(frame) != expected(frame))
            .map(|frame| format!("{frame:#x}: {:?}", host.owner(frame)))
            .collect();
        assert!(
            wrong.is_empty(),
            "{header}: {:?}",
            &wrong[..wrong.len().min(10)]
        );
    }
}
