//! The settings of the scripts that dump in the capture kernel: bigiron's, kdump-tools' and
//! kdump-utils'.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bigiron_dump::Format;
use bigiron_format::codec::{Codec, Compression};
use bigiron_kernel::DumpLevel;
use clap::Parser;

use super::root::Root;
use crate::arguments::DumpArguments;
use crate::makedumpfile;

/// Settings of bigiron's capture script; later files replace values of earlier ones.
pub const BIGIRON: [&str; 2] = ["etc/default/bigiron", "etc/default/bigiron-ram-dump"];
/// Settings of Debian's kdump-tools.
const KDUMP_TOOLS: &str = "etc/default/kdump-tools";
/// Settings of kdump-utils, of Fedora and RHEL.
const KDUMP_UTILS: [&str; 2] = ["etc/kdump.conf", "etc/sysconfig/kdump"];
/// What kdump-config appends to the capture kernel's command line by default.
const TOOLS_WORDS: &str = "reset_devices nr_cpus=1 irqpoll";
/// The directory of both kits.
const CRASH: &str = "/var/crash";

/// The distribution's scripts that load the capture kernel, and dump where bigiron's do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Debian's.
    KdumpTools,
    /// Fedora's and RHEL's.
    KdumpUtils,
    /// None is installed.
    None,
}

/// The options of `bigiron dump`.
#[derive(Parser)]
struct DumpCommand {
    #[command(flatten)]
    arguments: DumpArguments,
}

/// How the dump is made.
#[derive(Clone, Debug)]
pub struct HowToDump {
    /// Dump levels in the order in which they are tried; not empty.
    pub levels: Vec<DumpLevel>,
    /// Its format.
    pub format: Format,
    /// Recipients of an encrypted dump, or files that name them.
    pub recipients: Vec<String>,
    /// True if the capture kernel starts the production kernel.
    pub then_boot: bool,
    /// True if what is on the device may be overwritten.
    pub overwrite_device: bool,
    /// Limit of the helpers.
    pub threads: Option<u16>,
}

/// The settings.
#[derive(Clone, Debug)]
pub struct Kit {
    /// The distribution's scripts.
    pub distribution: Distribution,
    /// True if they are switched on.
    pub is_on: bool,
    /// The dump device.
    pub device: Option<PathBuf>,
    /// The directory in which the dump is, at the latest after the reboot.
    pub directory: PathBuf,
    /// Where `how` comes from.
    pub origin: &'static str,
    /// How the dump is made, or why the options are wrong.
    pub how: Result<HowToDump, String>,
    /// The words that the capture kernel's command line has besides the production kernel's.
    pub capture_words: String,
}

impl Kit {
    /// Reads the settings.
    pub fn read(root: &Root) -> Self {
        let mut own = BTreeMap::new();
        for file in BIGIRON {
            own.extend(assignments(&root.read(file).unwrap_or_default()));
        }
        let tools = root.read(KDUMP_TOOLS).map(|text| assignments(&text));
        let [utils, command_line] = KDUMP_UTILS.map(|file| root.read(file));
        let device = own.remove("DEVICE").filter(|device| !device.is_empty());
        let mut kit = Self {
            distribution: Distribution::None,
            is_on: false,
            device: device.map(PathBuf::from),
            directory: CRASH.into(),
            origin: "the defaults",
            how: Ok(HowToDump::default()),
            capture_words: String::new(),
        };
        if let Some(tools) = tools {
            let value = |name: &str| tools.get(name).cloned();
            kit.distribution = Distribution::KdumpTools;
            kit.is_on = value("USE_KDUMP").is_some_and(|value| value == "1");
            kit.capture_words = value("KDUMP_CMDLINE_APPEND").unwrap_or(TOOLS_WORDS.into());
            kit.directory = value("KDUMP_COREDIR").unwrap_or(CRASH.into()).into();
            kit.origin = "MAKEDUMP_ARGS in /etc/default/kdump-tools";
            kit.how =
                HowToDump::of_makedumpfile(&value("MAKEDUMP_ARGS").unwrap_or("-c -d 31".into()));
        } else if let Some(utils) = utils {
            let settings = directives(&utils);
            let value = |name: &str| settings.get(name).cloned();
            kit.distribution = Distribution::KdumpUtils;
            kit.is_on = true;
            let words = assignments(&command_line.unwrap_or_default());
            let words = words.get("KDUMP_COMMANDLINE_APPEND").cloned();
            kit.capture_words = words.unwrap_or_default();
            kit.directory = value("path").unwrap_or(CRASH.into()).into();
            kit.origin = "core_collector in /etc/kdump.conf";
            let collector = value("core_collector").unwrap_or("makedumpfile -l -d 31".into());
            kit.how = match collector.split_once(char::is_whitespace) {
                Some(("makedumpfile", options)) => HowToDump::of_makedumpfile(options),
                _ => Err(format!("core_collector is {collector:?}, not makedumpfile")),
            };
        }
        if kit.device.is_some() {
            kit.origin = "CAPTURE_OPTIONS in /etc/default/bigiron";
            kit.how = HowToDump::of_dump(own.get("CAPTURE_OPTIONS").map_or("", String::as_str));
            kit.directory = own.remove("DIR").unwrap_or(CRASH.into()).into();
        }
        kit
    }

    /// CPUs of the capture kernel by its command line, if that has a limit.
    pub fn capture_cpus(&self) -> Option<usize> {
        let mut words = self.capture_words.split_ascii_whitespace();
        words.find_map(|word| {
            let (name, value) = word.split_once('=')?;
            matches!(name, "nr_cpus" | "maxcpus").then(|| value.parse().ok())?
        })
    }
}

impl Default for HowToDump {
    /// As `bigiron dump` without options.
    fn default() -> Self {
        Self {
            levels: vec![DumpLevel::MAX],
            format: Format::default(),
            recipients: Vec::new(),
            then_boot: false,
            overwrite_device: false,
            threads: None,
        }
    }
}

impl HowToDump {
    /// Parses options of `bigiron dump`.
    pub fn of_dump(options: &str) -> Result<Self, String> {
        let words = ["dump"].into_iter().chain(options.split_ascii_whitespace());
        let parsed = DumpCommand::try_parse_from(words.chain(["/proc/vmcore", "/dev/device"]));
        let DumpCommand { arguments } = parsed.map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        })?;
        let how = &arguments.how;
        if let Some((_, wrong)) = how.wrong_split().or_else(|| how.wrong_stripe()) {
            return Err(wrong.to_owned());
        }
        let format = how.compress.of_format(how.format(), how.chunk_size)?;
        let mut levels = how.levels();
        if levels.is_empty() {
            levels.push(DumpLevel::MAX);
        }
        Ok(Self {
            levels,
            format,
            recipients: how.encrypt.clone(),
            then_boot: arguments.boot.then_boot.is_some(),
            overwrite_device: how.overwrite_device,
            threads: how.threads,
        })
    }

    /// Options of `bigiron dump` for the same pages, format and keys, without any that name an
    /// output or change the machine.
    pub fn harmless_options(&self) -> Vec<String> {
        let level = self.levels.first().copied().unwrap_or(DumpLevel::MAX);
        let mut options = vec!["-d".into(), level.number().to_string()];
        options.extend(["-f".into(), self.format.name().into()]);
        let codec = self.format.compression();
        options.extend(codec.into_iter().flat_map(|codec| ["-c".into(), codec]));
        let keys = self.recipients.iter().cloned();
        options.extend(keys.flat_map(|key| ["--encrypt".into(), key]));
        options
    }

    /// Parses options of makedumpfile.
    fn of_makedumpfile(options: &str) -> Result<Self, String> {
        let words = options.split_ascii_whitespace().map(Into::into);
        let (levels, format) = makedumpfile::levels_and_format(words.collect())
            .ok_or_else(|| format!("makedumpfile does not take the options {options:?}"))?;
        Ok(Self {
            levels,
            format,
            ..Self::default()
        })
    }
}

/// The compressions that a plan compares, besides the configured one.
pub fn usual_formats() -> [Format; 3] {
    [
        Format::kdump(Compression::new(Codec::Zstd)),
        Format::kdump(Compression::new(Codec::Lzo)),
        Format::Vmdump(bigiron_dump::ChunkCompression::Zstd(
            bigiron_dump::ZstdChunks::default(),
        )),
    ]
}

/// Parses lines `NAME=VALUE` as sh(1) does where VALUE has no expansions; the last one counts.
fn assignments(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim);
    let parse = |line: &str| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split(quote).next(),
            _ => value.split_ascii_whitespace().next(),
        };
        Some((name.to_owned(), value.unwrap_or_default().to_owned()))
    };
    lines.filter_map(parse).collect()
}

/// Parses lines `name value` of kdump.conf.
fn directives(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with('#'));
    let parse = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    lines.filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::fs;

    use super::*;

    fn kit(files: &[(&str, &str)]) -> Kit {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Kit::read(&Root::new(root.path()))
    }

    #[test]
    fn settings_of_the_dump_device_come_before_those_of_the_distribution() {
        let tools = "USE_KDUMP=1\n#MAKEDUMP_ARGS=\"-l\"\nKDUMP_COREDIR=\"/srv/crash\"\n\
                     KDUMP_CMDLINE_APPEND='nr_cpus=4 irqpoll'\n";
        let own =
            "DEVICE=/dev/sdx\nDIR=/data\nCAPTURE_OPTIONS=\"-d 1,31 -f vmdump --then-boot auto\"\n";
        let found = kit(&[(KDUMP_TOOLS, tools)]);
        assert_eq!(found.distribution, Distribution::KdumpTools);
        assert!(found.is_on && found.device.is_none());
        assert_eq!(found.directory, PathBuf::from("/srv/crash"));
        assert_eq!(found.capture_cpus(), Some(4));
        let how = found.how.unwrap();
        assert_eq!(how.levels[0].number(), 31);
        assert_eq!(how.format, Format::kdump(Compression::new(Codec::Zlib)));
        assert_eq!(how.harmless_options().join(" "), "-d 31 -f kdump -c zlib:1");

        let found = kit(&[
            (KDUMP_TOOLS, tools),
            (BIGIRON[0], own),
            (BIGIRON[1], "DEVICE=/dev/pmem0\n"),
        ]);
        assert_eq!(found.device, Some("/dev/pmem0".into()));
        assert_eq!(found.directory, PathBuf::from("/data"));
        let how = found.how.unwrap();
        assert_eq!(
            how.levels
                .iter()
                .map(|level| level.number())
                .collect::<Vec<_>>(),
            [1, 31]
        );
        assert!(how.then_boot && matches!(how.format, Format::Vmdump(_)));
        assert_eq!(how.harmless_options().join(" "), "-d 1 -f vmdump -c zstd:1");
    }

    #[test]
    fn settings_of_kdump_utils_are_read_and_wrong_options_are_named() {
        let conf = "# core_collector makedumpfile -c\npath /mnt/crash\ncore_collector makedumpfile -p -d 17,31\n";
        let found = kit(&[
            (KDUMP_UTILS[0], conf),
            (
                KDUMP_UTILS[1],
                "KDUMP_COMMANDLINE_APPEND=\"irqpoll maxcpus=2\"\n",
            ),
        ]);
        assert_eq!(found.distribution, Distribution::KdumpUtils);
        assert_eq!(found.directory, PathBuf::from("/mnt/crash"));
        assert_eq!(found.capture_cpus(), Some(2));
        let how = found.how.unwrap();
        assert_eq!(how.levels.len(), 2);
        assert_eq!(how.format, Format::kdump(Compression::new(Codec::Snappy)));

        let wrong = |files: &[(&str, &str)]| kit(files).how.unwrap_err();
        assert!(wrong(&[(KDUMP_UTILS[0], "core_collector cp\n")]).contains("cp"));
        assert!(wrong(&[(KDUMP_TOOLS, "MAKEDUMP_ARGS=\"--nonsense\"\n")]).contains("nonsense"));
        let own = "DEVICE=/dev/sdx\nCAPTURE_OPTIONS=\"-d 32\"\n";
        assert!(wrong(&[(BIGIRON[0], own)]).contains("32"));
        let own = "DEVICE=/dev/sdx\nCAPTURE_OPTIONS=\"-f elf -c bzip2 --split a,b\"\n";
        assert!(!wrong(&[(BIGIRON[0], own)]).is_empty());
    }

    #[test]
    fn machine_without_settings_has_the_defaults() {
        let found = kit(&[]);
        assert_eq!(found.distribution, Distribution::None);
        assert!(!found.is_on && found.device.is_none() && found.capture_cpus().is_none());
        assert_eq!(found.how.unwrap().levels, [DumpLevel::MAX]);
    }
}
