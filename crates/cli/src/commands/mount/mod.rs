//! `bigiron mount`: a dump as files.

mod files;
mod host;
mod sched;
mod serve;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::fuse::{Helper, Options, Place, Session, Tree};
use bigiron_dump::DumpError;
use bigiron_kernel::Kernel;
use clap::Args;

use files::Files;
use host::HostFiles;

use crate::arguments::{SourceArguments, threads};
use crate::sandbox::Needs;
use crate::source::{self, Opened, Reading};
use crate::tell::tell;
use crate::timeout;

#[cfg(feature = "hotplug")]
pub use serve::serve;

/// Default maximum number of serving threads: usually one program reads a dump, and read-ahead
/// occupies a few more.
const MAX_THREADS: usize = 16;

/// `bigiron mount`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct MountArguments {
    /// The dump, in any format; all parts of a split or striped one, or - for standard input
    #[arg(required = true, num_args = 1..)]
    dump: Vec<PathBuf>,
    /// The directory, which must be empty
    #[arg(required = true, value_name = "DIR")]
    directory: PathBuf,
    /// Serving threads [default: one per CPU, at most 16]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Print only errors and warnings
    #[arg(short, long)]
    quiet: bool,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

const HELP: &str = "\
DIR contains these files, each generated when it is first read:

  vmcore         the dump as a plain ELF core, for crash, drgn and gdb
  dmesg          what `bigiron dmesg` prints
  vmcoreinfo     VMCOREINFO
  info.json      what `bigiron info --json` prints
  sched/domains  the scheduler domains of each CPU, as the kernel's debugfs shows them

Of a Xen host, DIR contains the whole memory as vmcore, the hypervisor's console, info.json, and a \
directory dom0 with these files of dom0's kernel.

The dump stays mounted until it is unmounted (umount DIR, or fusermount3 -u DIR for users) or the \
program receives a signal (Ctrl-C). Files still open then can be read until they are closed; a second \
signal ends the program at once.

Examples:
  bigiron mount vmcore.vmdump /mnt &
  crash vmlinux /mnt/vmcore
  umount /mnt";

/// Returns the name of a dump in lists of mounts.
fn shown_name(dump: &Path) -> String {
    let path = std::fs::canonicalize(dump).unwrap_or_else(|_| dump.to_owned());
    path.display().to_string()
}

/// Finds the kernel in dom0 of a Xen host.
fn dom0(host: &'static Opened) -> anyhow::Result<&'static Kernel<'static>> {
    let dom0 = &*Box::leak(Box::new(host.dom0()?));
    Ok(Box::leak(Box::new(dom0.kernel()?)))
}

/// Mounts the dump and serves it until it is unmounted.
pub fn run(arguments: &MountArguments) -> anyhow::Result<()> {
    let options = &arguments.source;
    let reading = Reading::open(&arguments.dump, options)?;
    let shown = arguments.dump.first().map(|dump| shown_name(dump));
    let shown = shown.unwrap_or_default();
    // Before the process is confined, which can then neither mount nor unmount.
    let place = match reading.is_confined() {
        true => Place::Helper(Helper::start(&arguments.directory, &shown)?),
        false => Place::Directory(arguments.directory.clone()),
    };
    let opened = reading.parse(&Needs::Fuse)?;
    let time = std::fs::metadata(opened.source.path()).and_then(|metadata| metadata.modified());
    // The serving threads end when the kernel unmounts; the dump they read must live until the
    // program exits.
    let opened = &*Box::leak(Box::new(opened));
    let name = opened.source.path();
    let how = Options {
        name: shown,
        threads: match arguments.threads {
            Some(wanted) => wanted.into(),
            None => threads(None).min(MAX_THREADS),
        },
        time: time.unwrap_or_else(|_| SystemTime::now()),
        // A dump contains secrets.
        everyone: false,
        is_chunked: opened.source.memory().vmdump().is_some(),
        tell: Box::new(move |text| tell!("bigiron: {}: {text}", name.display())),
    };
    let io = options.input.io.into();
    let named = |error: DumpError| source::name_error(error.into(), name);
    let tree = match opened.host()? {
        Some(host) => {
            let dom0 = dom0(opened).and_then(|kernel| Ok((Files::new(kernel, io)?, kernel)));
            if let Err(error) = &dom0 {
                tell!("bigiron: warning: {}: no dom0: {error:#}", name.display());
            }
            let files = HostFiles::new(&opened.source, host, dom0, io).map_err(named)?;
            Tree::new(move || Ok(files.list()))
        }
        None => {
            let kernel = &*Box::leak(Box::new(opened.kernel()?));
            let files = Files::new(kernel, io).map_err(named)?;
            Tree::new(move || Ok(files.list()))
        }
    };
    // The time limit is for opening the dump: a mount is served as long as it is wanted.
    timeout::end();
    let mount = || Session::new(tree, place, how);
    serve::serve(mount, &name.display().to_string(), arguments.quiet)
}
