//! `bigiron dump`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bigiron_dump::{OutputTarget, Progress};
use bigiron_helpers::Stop;
use bigiron_kernel::Kernel;

use super::{online, report, source};
use crate::arguments::{DumpArguments, Format};
use crate::progress;
use crate::tell::tell;
use crate::{signals, watchdog};

/// Makes a dump and prints the summary.
pub fn run(arguments: &DumpArguments) -> anyhow::Result<()> {
    let (paths, output) = arguments.split_paths();
    let to_stdout = output.as_os_str() == "-";
    let target = if to_stdout {
        OutputTarget::Stdout
    } else {
        OutputTarget::File(output.clone())
    };
    let directory = match output.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !to_stdout => parent.to_owned(),
        _ if to_stdout => std::env::temp_dir(),
        _ => Path::new(".").to_owned(),
    };
    let opened = source::open(paths, &directory)?;
    let given = arguments
        .source
        .vmcoreinfo
        .as_deref()
        .map(source::read_vmcoreinfo)
        .transpose()?;
    // Before anything asks how many processors there are.
    online::bring_up(
        arguments.online_cpus,
        paths,
        arguments.threads,
        arguments.quiet,
    );
    let options = arguments.options();
    let kernel = Kernel::find(
        &opened,
        given,
        options.io,
        arguments.source.cache_pages as usize,
    )
    .map_err(|error| source::name_error(error.into(), opened.path()))?;
    if let Some(damage) = opened.damage() {
        let name = opened.path().display().to_string();
        if damage.contains(&name) {
            tell!("bigiron: warning: {damage}");
        } else {
            tell!("bigiron: warning: {name}: {damage}");
        }
    }
    if kernel.found_in_memory() && !arguments.quiet {
        tell!("bigiron: VMCOREINFO was in no note; found it in memory");
    }
    if to_stdout && arguments.format == Format::Kdump && !arguments.quiet {
        tell!("bigiron: writing the flattened format, since standard output is a stream");
    }

    // Until here a signal may end us as it likes: nothing has been written.
    let stop = Stop::new();
    signals::watch(&stop)?;
    let progress = Arc::new(Progress::new());
    let watchdog = watchdog::begin(
        &progress,
        Duration::from_secs(arguments.stall_warning.get()),
        opened.path().display().to_string(),
        if to_stdout {
            "standard output".into()
        } else {
            output.display().to_string()
        },
    );
    let display = progress::begin(
        &progress,
        1 << opened.memory().page_shift(),
        arguments.quiet,
    );
    let result = bigiron_dump::dump(&kernel, &target, &options, &progress, &stop);
    drop((display, watchdog));
    let summary = result.map_err(|error| source::name_error(error.into(), opened.path()))?;
    for warning in &summary.warnings {
        tell!("bigiron: warning: {warning}");
    }
    let report = report::DumpReport::new(&opened, &kernel, &options, output, &summary);
    if arguments.json {
        report::print(&report.json()?, to_stdout)?;
    } else if !arguments.quiet {
        report::print(&report.text(arguments.stats), to_stdout)?;
    }
    Ok(())
}
