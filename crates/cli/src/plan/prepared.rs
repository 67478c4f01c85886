//! What was prepared before the crash: options, keys, initramfs, units.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use bigiron_dump::Recipients;

use super::checked::Checked;
use super::kit::{BIGIRON, Distribution, HowToDump};
use super::line::{Line, Verdict};
use super::root::Root;

/// Directories of links that systemd makes for enabled units.
const WANTED: [&str; 2] = [
    "etc/systemd/system/multi-user.target.wants",
    "etc/systemd/system/sysinit.target.wants",
];
const SAVE: &str = "bigiron-save.service";

/// Checks what was prepared.
pub fn check(checked: &Checked) -> Vec<Line> {
    let (root, kit) = (checked.root, checked.kit);
    let mut lines = vec![options(checked)];
    if let Ok(how) = &kit.how {
        lines.extend(key(how));
        lines.extend(production_kernel(root, how));
    }
    lines.push(image(root, kit.distribution));
    lines.push(scripts(root, kit.distribution, kit.is_on));
    if kit.device.is_some() {
        lines.push(match is_enabled(root, SAVE) {
            true => Line::new("save_unit", Verdict::Ok, format!("{SAVE} is enabled")),
            false => Line::new(
                "save_unit",
                Verdict::Warning,
                format!(
                    "{SAVE} is not enabled: the dump stays on the device, and the next one is \
                         refused; `systemctl enable {SAVE}`"
                ),
            ),
        });
    }
    lines
}

fn options(checked: &Checked) -> Line {
    let (name, origin) = ("options", checked.kit.origin);
    match &checked.kit.how {
        Ok(how) => {
            let levels: Vec<_> = how
                .levels
                .iter()
                .map(|level| level.number().to_string())
                .collect();
            let codec = how.format.compression();
            let codec = codec.map_or(String::new(), |codec| format!(", {codec}"));
            let format = how.format.name();
            let text = format!(
                "level {}, {format}{codec}, by {origin}",
                levels.join(" then ")
            );
            Line::new(name, Verdict::Ok, text)
        }
        Err(error) => Line::new(name, Verdict::Failure, format!("{origin}: {error}")),
    }
}

fn key(how: &HowToDump) -> Option<Line> {
    let name = "encryption_key";
    let wrong = how
        .recipients
        .iter()
        .find_map(|text| Recipients::from_str(text).err());
    (!how.recipients.is_empty()).then(|| match wrong {
        Some(error) => Line::new(
            name,
            Verdict::Failure,
            format!("{error}; the dump cannot be encrypted, and is not made"),
        ),
        None => {
            let is_file = |text: &&String| !text.starts_with("age1");
            let files: Vec<_> = how.recipients.iter().filter(is_file).cloned().collect();
            match files.as_slice() {
                [] => Line::new(name, Verdict::Ok, "the public keys are valid"),
                files => Line::new(
                    name,
                    Verdict::Warning,
                    format!(
                        "the public keys are valid, but the initramfs must have {} as well; \
                             name the keys themselves instead",
                        files.join(", ")
                    ),
                ),
            }
        }
    })
}

/// The files of production's kernel that the capture kernel starts.
pub fn production_files(root: &Root) -> [String; 2] {
    let release = release(root);
    let names = ["initrd.img-", "initramfs-", "initrd-"];
    let mut initrds = names.iter().map(|name| {
        let end = if *name == "initramfs-" { ".img" } else { "" };
        format!("boot/{name}{release}{end}")
    });
    let initrd = initrds.find(|path| root.metadata(path).is_some());
    [
        format!("boot/vmlinuz-{release}"),
        initrd.unwrap_or_else(|| format!("boot/initrd.img-{release}")),
    ]
}

fn production_kernel(root: &Root, how: &HowToDump) -> Option<Line> {
    let files = production_files(root);
    let missing = files.iter().find(|path| root.metadata(path).is_none());
    how.then_boot.then(|| match missing {
        Some(path) => Line::new(
            "production_kernel",
            Verdict::Warning,
            format!("/{path} is missing: the machine goes through its firmware after the dump"),
        ),
        None => Line::new(
            "production_kernel",
            Verdict::Ok,
            format!("/{} and /{}", files[0], files[1]),
        ),
    })
}

/// The release of the running kernel.
pub fn release(root: &Root) -> String {
    root.word("proc/sys/kernel/osrelease").unwrap_or_default()
}

/// The initramfs of the capture kernel.
pub fn initramfs(root: &Root, distribution: Distribution) -> Option<PathBuf> {
    let release = release(root);
    let names = match distribution {
        Distribution::KdumpTools => [
            format!("var/lib/kdump/initrd.img-{release}"),
            "var/lib/kdump/initrd.img".into(),
        ],
        Distribution::KdumpUtils => [
            format!("boot/initramfs-{release}kdump.img"),
            format!("var/lib/kdump/initramfs-{release}kdump.img"),
        ],
        Distribution::None => return None,
    };
    let mut names = names.into_iter().map(PathBuf::from);
    names.find(|path| root.metadata(path).is_some())
}

fn image(root: &Root, distribution: Distribution) -> Line {
    let name = "initramfs";
    let Some(path) = initramfs(root, distribution) else {
        return match distribution {
            Distribution::None => Line::new(
                name,
                Verdict::Note,
                "neither kdump-tools nor kdump-utils is installed: the initramfs is not known",
            ),
            _ => Line::new(
                name,
                Verdict::Failure,
                format!("there is none for the kernel {}", release(root)),
            ),
        };
    };
    let shown = format!("/{}", path.display());
    let changed = |path: &str| root.metadata(path)?.modified().ok();
    let made = root.metadata(&path).and_then(|found| found.modified().ok());
    let is_newer = |time: SystemTime| made.is_some_and(|made| time > made);
    let inside = [
        "usr/lib/bigiron/bigiron",
        "usr/lib/bigiron/capture-to-device",
    ];
    let mut sources = BIGIRON.iter().chain(&inside);
    match sources.find(|path| changed(path).is_some_and(is_newer)) {
        Some(source) => Line::new(
            name,
            Verdict::Warning,
            format!("{shown}: is older than /{source}; make it again"),
        ),
        None => Line::new(name, Verdict::Ok, shown),
    }
}

fn scripts(root: &Root, distribution: Distribution, is_on: bool) -> Line {
    let name = "kdump_unit";
    let (unit, hint) = match distribution {
        Distribution::KdumpTools => (
            "kdump-tools.service",
            "USE_KDUMP=1 in /etc/default/kdump-tools",
        ),
        Distribution::KdumpUtils => ("kdump.service", "`systemctl enable kdump`"),
        Distribution::None => {
            return Line::new(
                name,
                Verdict::Note,
                "no service of a distribution loads the capture kernel at the next boot",
            );
        }
    };
    match is_enabled(root, unit) && is_on {
        true => Line::new(name, Verdict::Ok, format!("{unit} is enabled")),
        false => Line::new(
            name,
            Verdict::Failure,
            format!("{unit} is not enabled: the next boot loads no capture kernel; {hint}"),
        ),
    }
}

fn is_enabled(root: &Root, unit: &str) -> bool {
    WANTED
        .iter()
        .any(|directory| root.has(&format!("{directory}/{unit}")))
}
