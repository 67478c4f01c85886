//! `bigiron setup ram-dump --check`: whether the range is a dump device now, after the reboot.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use bigiron_format::device::find_claims;
use bigiron_kernel::source::DumpFile;

use super::{DEVICE, KeptRange, MemoryMap};

/// Name of such a range in /proc/iomem (e820_type_to_string(), arch/x86/kernel/e820.c).
const KEPT: &str = "Persistent Memory (legacy)";
/// Size of the sectors that sysfs counts, whatever the device's.
const SECTOR: u64 = 512;

/// One condition, and the reason why it does not hold.
pub struct Condition {
    /// What must be.
    pub text: String,
    /// The reason why it is not.
    pub failure: Option<String>,
}

/// Checks all conditions; those after a failed one, which would fail as well, are left out.
pub fn check(root: &Path, range: KeptRange) -> Vec<Condition> {
    let device = format!("/dev/{DEVICE}");
    let steps: [(String, &dyn Fn() -> anyhow::Result<()>); 5] = [
        (format!("the kernel's command line has {range}"), &|| {
            command_line(root, range)
        }),
        (format!("the range is kept memory ({KEPT})"), &|| {
            memory_map(root, range)
        }),
        (
            format!("{device} is there, of this size and place"),
            &|| place(root, range),
        ),
        (format!("nothing uses {device}"), &|| users(root)),
        (format!("nothing but a dump is on {device}"), &|| {
            contents(root)
        }),
    ];
    let mut conditions = Vec::new();
    for (text, step) in steps {
        let failure = step().err().map(|error| format!("{error:#}"));
        let failed = failure.is_some();
        conditions.push(Condition { text, failure });
        if failed {
            break;
        }
    }
    conditions
}

fn command_line(root: &Path, range: KeptRange) -> anyhow::Result<()> {
    let line = read(root, "proc/cmdline")?;
    let word = range.to_string();
    ensure!(
        line.split_ascii_whitespace().any(|one| one == word),
        "it does not: run update-grub, and reboot"
    );
    Ok(())
}

fn memory_map(root: &Path, range: KeptRange) -> anyhow::Result<()> {
    let map = MemoryMap::parse(&read(root, "proc/iomem")?)?;
    let found: Vec<_> = map.named(KEPT).collect();
    ensure!(
        !found.is_empty(),
        "there is none in /proc/iomem: this kernel lacks CONFIG_X86_PMEM_LEGACY"
    );
    let is_there = found
        .iter()
        .any(|kept| (kept.start, kept.last) == (range.start, range.last()));
    let places: Vec<_> = found
        .iter()
        .map(|kept| format!("{:#x}-{:#x}", kept.start, kept.last))
        .collect();
    ensure!(is_there, "it is at {}", places.join(", "));
    ensure!(
        found.len() == 1,
        "there are others, so that the names of the devices can change: {}",
        places.join(", ")
    );
    Ok(())
}

fn place(root: &Path, range: KeptRange) -> anyhow::Result<()> {
    let block = format!("sys/block/{DEVICE}");
    ensure!(
        root.join(&block).exists(),
        "it is not there: are the modules nd_e820 and nd_pmem loaded?"
    );
    let size: u64 = read(root, &format!("{block}/size"))?.trim().parse()?;
    let bytes = size.saturating_mul(SECTOR);
    ensure!(
        bytes == range.size,
        "it has {bytes} bytes instead of {}",
        range.size
    );
    let start = read(root, &format!("{block}/device/resource"))?;
    let start = u64::from_str_radix(start.trim().trim_start_matches("0x"), 16);
    let start = start.context("cannot understand its resource")?;
    ensure!(
        start == range.start,
        "it begins at {start:#x} instead of {:#x}",
        range.start
    );
    Ok(())
}

fn users(root: &Path) -> anyhow::Result<()> {
    let block = root.join("sys/block").join(DEVICE);
    let holders = block.join("holders");
    let holders = fs::read_dir(&holders).with_context(|| holders.display().to_string())?;
    let holders: Vec<_> = holders.flatten().map(|holder| holder.file_name()).collect();
    ensure!(
        holders.is_empty(),
        "it is part of {}",
        holders.join(", ".as_ref()).display()
    );
    let device = format!("/dev/{DEVICE}");
    for (file, use_) in [("proc/mounts", "mounted"), ("proc/swaps", "swap space")] {
        let is_listed = |line: &str| {
            line.split_ascii_whitespace()
                .next()
                .is_some_and(|name| name.starts_with(&device))
        };
        ensure!(!read(root, file)?.lines().any(is_listed), "it is {use_}");
    }
    Ok(())
}

fn contents(root: &Path) -> anyhow::Result<()> {
    let path = root.join("dev").join(DEVICE);
    let file = DumpFile::open(&path)?;
    let claims = find_claims(&file)?;
    let names: Vec<_> = claims.iter().map(|claim| claim.name).collect();
    ensure!(
        claims.is_empty(),
        "there is something on it: {}",
        names.join(", ")
    );
    Ok(())
}

fn read(root: &Path, name: &str) -> anyhow::Result<String> {
    let path = root.join(name);
    fs::read_to_string(&path).with_context(|| format!("{}: cannot read it", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::fs::File;

    use super::*;

    const RANGE: KeptRange = KeptRange {
        start: 0x2800_0000,
        size: 64 << 20,
    };

    /// A machine whose range is as it should be.
    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file(
            "proc/cmdline",
            "root=/dev/vda memmap=64M!0x28000000 quiet\n",
        );
        file(
            "proc/iomem",
            "00100000-27ffffff : System RAM\n28000000-2bffffff : Persistent Memory (legacy)\n  \
             28000000-2bffffff : namespace0.0\n",
        );
        file("sys/block/pmem0/size", "131072\n");
        file("sys/block/pmem0/device/resource", "0x28000000\n");
        file("proc/mounts", "/dev/vda / ext4 rw 0 0\n");
        file("proc/swaps", "Filename Type Size Used Priority\n");
        file("dev/pmem0", "");
        fs::create_dir(root.path().join("sys/block/pmem0/holders")).unwrap();
        File::options()
            .write(true)
            .open(root.path().join("dev/pmem0"))
            .unwrap()
            .set_len(RANGE.size)
            .unwrap();
        root
    }

    /// The reason of the condition that fails, with its place among all.
    fn failure(root: &Path) -> Option<(usize, String)> {
        let conditions = check(root, RANGE);
        let place = conditions.len();
        conditions
            .into_iter()
            .find_map(|condition| condition.failure)
            .map(|failure| (place, failure))
    }

    #[test]
    fn range_that_is_a_free_device_passes() {
        let root = root();
        assert_eq!(failure(root.path()), None);
        assert_eq!(check(root.path(), RANGE).len(), 5);
    }

    #[test]
    fn each_condition_fails_alone() {
        for (place, file, text, reason) in [
            (
                1,
                "proc/cmdline",
                "root=/dev/vda memmap=65M!0x28000000\n",
                "update-grub",
            ),
            (
                2,
                "proc/iomem",
                "00100000-27ffffff : System RAM\n",
                "X86_PMEM_LEGACY",
            ),
            (
                2,
                "proc/iomem",
                "28000000-28ffffff : Persistent Memory (legacy)\n",
                "0x28000000-0x28ffffff",
            ),
            (
                2,
                "proc/iomem",
                "28000000-2bffffff : Persistent Memory (legacy)\n100000000-1ffffffff : Persistent Memory (legacy)\n",
                "others",
            ),
            (3, "sys/block/pmem0/size", "131071\n", "instead of"),
            (
                3,
                "sys/block/pmem0/device/resource",
                "0x38000000\n",
                "begins at 0x38000000",
            ),
            (4, "sys/block/pmem0/holders/dm-0", "", "part of dm-0"),
            (
                4,
                "proc/mounts",
                "/dev/pmem0p1 /mnt ext4 rw 0 0\n",
                "mounted",
            ),
            (
                4,
                "proc/swaps",
                "/dev/pmem0 partition 65532 0 -2\n",
                "swap space",
            ),
            (5, "dev/pmem0", "XFSB", "XFS"),
        ] {
            let root = root();
            fs::write(root.path().join(file), text).unwrap();
            let (failed, found) = failure(root.path()).unwrap();
            assert_eq!(failed, place, "{file}: {found}");
            assert!(found.contains(reason), "{file}: {found}");
        }
    }

    #[test]
    fn missing_device_names_the_modules() {
        let root = root();
        fs::remove_dir_all(root.path().join("sys/block/pmem0")).unwrap();
        let (place, found) = failure(root.path()).unwrap();
        assert_eq!(place, 3);
        assert!(found.contains("nd_pmem"), "{found}");
    }
}
