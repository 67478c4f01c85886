//! A dump that ends before the write, in the capture kernel's initramfs: the image is unpacked into
//! a temporary directory, and its own program dumps the running kernel there to /dev/null.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use bigiron_kernel::RUNNING_KERNEL;
use serde_json::Value;

use super::kit::Kit;
use super::line::{Line, Section, Verdict};
use super::prepared;
use super::root::Root;
use crate::size;

/// The source in the image, if it is a file.
const SOURCE: &str = "rehearsal-source";
/// Programs and settings of the image that must be those of the machine.
const SAME: [(&str, &str); 3] = [
    ("usr/bin/bigiron", "usr/lib/bigiron/bigiron"),
    (
        "usr/lib/bigiron/capture-to-device",
        "usr/lib/bigiron/capture-to-device",
    ),
    ("etc/default/bigiron", "etc/default/bigiron"),
];
/// Makes the machine's /proc and /dev visible in the image, in a namespace of mounts that ends
/// with the program. $1 is the image, $2 the source if it is a file; the rest is the command.
const SCRIPT: &str = "set -e; root=$1 source=$2; shift 2; mkdir -p \"$root/proc\" \"$root/dev\"; \
    mount --rbind /proc \"$root/proc\"; mount --rbind /dev \"$root/dev\"; \
    if [ -n \"$source\" ]; then : >\"$root/rehearsal-source\"; mount --bind \"$source\" \"$root/rehearsal-source\"; fi; \
    exec chroot \"$root\" \"$@\"";

/// Rehearses the dump, and judges each step.
pub fn rehearse(root: &Root, kit: &Kit, memory: &Path) -> Vec<Line> {
    let name = "rehearsal";
    let lines = match try_rehearse(root, kit, memory) {
        Ok(lines) => lines,
        Err(error) => vec![Line::new(name, Verdict::Failure, format!("{error:#}"))],
    };
    let section = Section::Rehearsal;
    lines
        .into_iter()
        .map(|line| line.in_section(section))
        .collect()
}

fn try_rehearse(root: &Root, kit: &Kit, memory: &Path) -> anyhow::Result<Vec<Line>> {
    let image = prepared::initramfs(root, kit.distribution);
    let image = image.context("the capture kernel's initramfs is not known or missing")?;
    let directory = Unpacked::of(&root.path(&image))?;
    let inside = Root::new(&directory.contents);
    let mut lines = vec![same(root, &inside)];
    lines.extend(driver(root, kit, &inside));
    let how = kit.how.clone().unwrap_or_default();
    lines.push(dumped(
        &directory.contents,
        &how.harmless_options(),
        memory,
    )?);
    Ok(lines)
}

/// The contents of an initramfs, removed with this.
struct Unpacked {
    directory: PathBuf,
    contents: PathBuf,
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Unpacked {
    /// Unpacks `image` with the distribution's program.
    fn of(image: &Path) -> anyhow::Result<Self> {
        let directory =
            std::env::temp_dir().join(format!("bigiron-rehearsal.{}", std::process::id()));
        // An initramfs may have keys.
        let made = fs::DirBuilder::new().mode(0o700).create(&directory);
        made.with_context(|| directory.display().to_string())?;
        let mut unpacked = Self {
            contents: directory.clone(),
            directory,
        };
        let place = &unpacked.directory;
        let debian = Command::new("unmkinitramfs").arg(image).arg(place).output();
        let output = debian.or_else(|_| {
            let mut dracut = Command::new("lsinitrd");
            dracut
                .arg("--unpack")
                .arg(image)
                .current_dir(place)
                .output()
        });
        let output = output.context("neither unmkinitramfs nor lsinitrd can be run")?;
        ensure!(
            output.status.success(),
            "{}: cannot be unpacked: {}",
            image.display(),
            last_line(&output)
        );
        // Behind microcode, which has an archive of its own.
        let main = place.join("main");
        if main.is_dir() {
            unpacked.contents = main;
        }
        Ok(unpacked)
    }
}

/// Compares the image's files with those of the machine.
fn same(root: &Root, inside: &Root) -> Line {
    let name = "rehearsal_files";
    let differs = SAME.iter().find(|(in_image, here)| {
        let here = fs::read(root.path(here)).ok();
        here.is_some() && fs::read(inside.path(in_image)).ok() != here
    });
    match differs {
        Some((in_image, here)) => Line::new(
            name,
            Verdict::Warning,
            format!(
                "/{in_image} in the image is not /{here} of this machine; make the image again"
            ),
        ),
        None => Line::new(
            name,
            Verdict::Ok,
            "programs and settings of the image are those here",
        ),
    }
}

/// Checks that the driver of the dump device is in the image.
fn driver(root: &Root, kit: &Kit, inside: &Root) -> Option<Line> {
    let name = "rehearsal_driver";
    let device = fs::canonicalize(root.path(kit.device.as_ref()?)).ok()?;
    let block = root.path("sys/class/block").join(device.file_name()?);
    // A partition has its disk's driver.
    let block = fs::canonicalize(block).ok()?;
    let mut places = block
        .ancestors()
        .map(|place| place.join("device/driver/module"));
    let module = places.find_map(|module| fs::canonicalize(module).ok())?;
    let module = module.file_name()?.to_string_lossy().replace('-', "_");
    let builtin = root.read(format!(
        "lib/modules/{}/modules.builtin",
        prepared::release(root)
    ));
    let is_builtin =
        builtin.is_some_and(|text| text.lines().any(|line| is_module(line.as_ref(), &module)));
    let found = is_builtin
        || has_module(&inside.path("lib/modules"), &module)
        || has_module(&inside.path("usr/lib/modules"), &module);
    let shown = device.display();
    Some(match found {
        true => Line::new(
            name,
            Verdict::Ok,
            format!("{module}, the driver of {shown}, is there"),
        ),
        false => Line::new(
            name,
            Verdict::Failure,
            format!("{module}, the driver of {shown}, is not in the image"),
        ),
    })
}

fn is_module(path: &OsStr, module: &str) -> bool {
    let name = Path::new(path)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .replace('-', "_");
    name.split_once(".ko")
        .is_some_and(|(stem, _)| stem == module)
}

fn has_module(directory: &Path, module: &str) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut entries = entries.map(|entry| entry.path());
    entries.any(|path| {
        let is_link = path.is_symlink();
        is_module(path.as_os_str(), module)
            || (!is_link && path.is_dir() && has_module(&path, module))
    })
}

/// Dumps to /dev/null by the program in the image.
fn dumped(contents: &Path, options: &[String], memory: &Path) -> anyhow::Result<Line> {
    let is_live = memory == Path::new(RUNNING_KERNEL);
    let source = match is_live {
        true => RUNNING_KERNEL.to_owned(),
        false => format!("/{SOURCE}"),
    };
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        SCRIPT,
        "sh",
    ]);
    command.arg(contents);
    match is_live {
        true => command.arg(""),
        false => command.arg(fs::canonicalize(memory)?),
    };
    command.args(["/usr/bin/bigiron", "dump", "--json"]);
    command.args(options);
    let output = command.args([&source, "/dev/null"]).output();
    let output = output.context("unshare cannot be run")?;
    ensure!(
        output.status.success(),
        "bigiron dump {} in the image: {}",
        options.join(" "),
        last_line(&output)
    );
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let number = |name: &str| summary[name].as_u64().unwrap_or(0);
    ensure!(
        number("bytes_out") > 0,
        "the program in the image reports no dump"
    );
    Ok(Line::new(
        "rehearsal",
        Verdict::Ok,
        format!(
            "the image's program dumps {} of this machine, {} compressed, in {:.1} s",
            size::format(number("bytes_in")),
            size::format(number("bytes_out")),
            summary["seconds"].as_f64().unwrap_or(0.0)
        ),
    ))
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it ended without a message").to_owned()
}
