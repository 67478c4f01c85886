//! The parsed command line.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU64;
use std::path::PathBuf;

use bigiron_format::codec::{Codec, Compression};
use bigiron_kernel::DumpLevel;

use super::getopt::{Getopt, Item};
use super::levels;
use super::messages::Messages;
use super::sizes;
use super::spec::{Class, Id, Spec};

/// The options and operands.
pub struct Settings {
    pub messages: Messages,
    pub levels: Vec<DumpLevel>,
    pub compression: Compression,
    pub compress: bool,
    pub elf: bool,
    pub flattened: bool,
    pub rearrange: bool,
    pub split: bool,
    pub splitblock_kib: u64,
    pub reassemble: bool,
    pub dmesg: bool,
    pub partial_dmesg: bool,
    pub mem_usage: bool,
    pub force: bool,
    pub dry_run: bool,
    pub check_params: bool,
    pub non_mmap: bool,
    pub threads: Option<usize>,
    pub size_limit: Option<NonZeroU64>,
    pub vtop: Option<u64>,
    pub vmlinux: Option<PathBuf>,
    pub vmcoreinfo: Option<PathBuf>,
    pub generate: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub xen_vmcoreinfo: Option<PathBuf>,
    pub xen_syms: Option<PathBuf>,
    pub xen_phys_start: Option<u64>,
    pub exclude_xen_domains: bool,
    pub exclude_vmemmap: bool,
    pub diskset: Vec<PathBuf>,
    pub help: bool,
    pub version: bool,
    pub operands: Vec<PathBuf>,
    debug: bool,
    show_stats: bool,
    ignored: Vec<&'static Spec>,
    refused: Option<&'static Spec>,
}

impl Settings {
    pub fn new() -> Self {
        Self {
            messages: Messages::new(),
            levels: vec![DumpLevel::default()],
            compression: Compression::new(Codec::None),
            compress: false,
            elf: false,
            flattened: false,
            rearrange: false,
            split: false,
            splitblock_kib: 0,
            reassemble: false,
            dmesg: false,
            partial_dmesg: false,
            mem_usage: false,
            force: false,
            dry_run: false,
            check_params: false,
            non_mmap: false,
            threads: None,
            size_limit: None,
            vtop: None,
            vmlinux: None,
            vmcoreinfo: None,
            generate: None,
            config: None,
            xen_vmcoreinfo: None,
            xen_syms: None,
            xen_phys_start: None,
            exclude_xen_domains: false,
            exclude_vmemmap: false,
            diskset: Vec::new(),
            help: false,
            version: false,
            operands: Vec::new(),
            debug: false,
            show_stats: false,
            ignored: Vec::new(),
            refused: None,
        }
    }

    /// Parses the arguments; returns false, after a message, if they are invalid.
    pub fn parse(&mut self, arguments: impl IntoIterator<Item = OsString>) -> bool {
        let mut getopt = Getopt::new(arguments);
        while let Some(found) = getopt.next() {
            match found {
                Ok(Item::Operand(operand)) => self.operands.push(operand.into()),
                Ok(Item::Option(spec, value)) => {
                    if !self.take(spec, &value) {
                        return false;
                    }
                }
                Err(error) => {
                    self.messages.error(&error);
                    self.invalid();
                    return false;
                }
            }
        }
        if self.debug {
            self.messages.add_debug();
        }
        if self.show_stats {
            self.messages.add_report();
        }
        if self.check_params {
            self.messages.set_level(Messages::DEFAULT_LEVEL);
        }
        true
    }

    /// The first option that is not supported.
    #[cfg(feature = "plan")]
    pub fn refused(&self) -> Option<&'static Spec> {
        self.refused
    }

    /// Reports an invalid command line.
    pub fn invalid(&self) {
        self.messages.common(
            "Commandline parameter is invalid.\nTry `makedumpfile --help' for more information.\n",
        );
    }

    /// Reports ignored and refused options; returns false if an option is refused.
    pub fn judge_options(&self) -> bool {
        for spec in &self.ignored {
            let name = spec.usage();
            self.messages
                .notice(&format!("{name} is ignored: {}", spec.text));
        }
        let Some(spec) = self.refused else {
            return true;
        };
        self.messages
            .error(&format!("{} is not supported: {}", spec.usage(), spec.text));
        false
    }

    fn take(&mut self, spec: &'static Spec, value: &OsStr) -> bool {
        match spec.class {
            Class::Ignored => {
                self.ignored.push(spec);
                return true;
            }
            Class::Refused => {
                self.refused.get_or_insert(spec);
                return true;
            }
            Class::Done => {}
        }
        let text = value.to_string_lossy();
        match spec.id {
            Id::Zlib => self.compress_with(Compression::new(Codec::Zlib)),
            Id::Lzo => self.compress_with(Compression::new(Codec::Lzo)),
            Id::Snappy => self.compress_with(Compression::new(Codec::Snappy)),
            Id::Zstd => self.compress_with(Compression::new(Codec::Zstd)),
            Id::DumpLevel => match levels::parse(&text) {
                Ok(levels) => self.levels = levels,
                Err(error) => return self.wrong_value(&error),
            },
            Id::SizeLimit => match sizes::memparse(&text).and_then(NonZeroU64::new) {
                Some(limit) => self.size_limit = Some(limit),
                None => return self.wrong_value(&format!("Limit size({text}) is invalid.")),
            },
            Id::MessageLevel => {
                let level = sizes::atoi(&text);
                match u8::try_from(level)
                    .ok()
                    .filter(|level| *level <= Messages::MAX_LEVEL)
                {
                    Some(level) if !self.check_params => self.messages.set_level(level),
                    Some(_) => {}
                    None => {
                        self.messages.set_level(Messages::DEFAULT_LEVEL);
                        return self.wrong_value(&format!("Message_level({level}) is invalid."));
                    }
                }
            }
            Id::CheckParams => {
                self.check_params = true;
                self.messages.set_level(Messages::DEFAULT_LEVEL);
            }
            Id::Flattened => {
                self.flattened = true;
                self.messages.leave_stdout();
            }
            Id::Threads => {
                let threads = usize::try_from(sizes::atoi(&text)).unwrap_or(0);
                self.threads = (threads > 0).then_some(threads);
            }
            Id::SplitblockSize => {
                self.splitblock_kib = u64::try_from(sizes::atoi(&text)).unwrap_or(0);
            }
            // Address 0 counts as no address, as in makedumpfile.
            Id::Vtop => self.vtop = sizes::strtoul(&text).filter(|address| *address != 0),
            Id::Vmlinux => self.vmlinux = Some(value.into()),
            Id::Vmcoreinfo => self.vmcoreinfo = Some(value.into()),
            Id::GenerateVmcoreinfo => self.generate = Some(value.into()),
            Id::Config => self.config = Some(value.into()),
            Id::Diskset => self.diskset.push(value.into()),
            Id::Elf => self.elf = true,
            Id::Rearrange => self.rearrange = true,
            Id::Split => self.split = true,
            Id::Reassemble => self.reassemble = true,
            Id::NonMmap => self.non_mmap = true,
            Id::DumpDmesg => self.dmesg = true,
            Id::PartialDmesg => self.partial_dmesg = true,
            Id::MemUsage => self.mem_usage = true,
            Id::DryRun => self.dry_run = true,
            Id::ShowStats => self.show_stats = true,
            Id::Debug => self.debug = true,
            Id::Force => self.force = true,
            Id::Help => self.help = true,
            Id::Version => self.version = true,
            Id::XenVmcoreinfo => self.xen_vmcoreinfo = Some(value.into()),
            Id::XenSyms => self.xen_syms = Some(value.into()),
            Id::XenPhysStart => self.xen_phys_start = sizes::strtoul(&text),
            Id::ExcludeXenDomains => self.exclude_xen_domains = true,
            Id::ExcludeVmemmap => self.exclude_vmemmap = true,
            Id::Eppic | Id::BlockOrder | Id::CyclicBuffer | Id::WorkDir | Id::Extension => {}
        }
        true
    }

    fn compress_with(&mut self, compression: Compression) {
        self.compression = compression;
        self.compress = true;
    }

    fn wrong_value(&self, text: &str) -> bool {
        self.messages.common(&format!("{text}\n"));
        false
    }
}
