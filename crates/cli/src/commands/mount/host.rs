//! The files of a mounted dump of a Xen host.

use std::sync::Arc;

use bigiron_dump::{CoreView, DumpError, Subject};
use bigiron_kernel::xen::Host;
use bigiron_kernel::{IoMethod, Kernel, Source};

use super::files::{Core, Files};
use crate::commands::info;
use crate::fuse::{ContentError, Entry, Text};

/// The host's memory, and the files of dom0.
pub struct HostFiles {
    source: &'static Source,
    host: &'static Host<'static>,
    core: Arc<CoreView<'static>>,
    dom0: &'static anyhow::Result<(Arc<Files>, &'static Kernel<'static>)>,
}

impl HostFiles {
    /// Creates the files of the host in `source`, which is read by the method `io`, with those of
    /// dom0 beside, if its kernel was found.
    pub fn new(
        source: &'static Source,
        host: Host<'static>,
        dom0: anyhow::Result<(Files, &'static Kernel<'static>)>,
        io: IoMethod,
    ) -> Result<Self, DumpError> {
        // The serving threads read it until the program exits.
        let subject = &*Box::leak(Box::new(Subject::of_host(source, host, None)));
        let host = subject
            .host()
            .ok_or(bigiron_kernel::KernelError::NoXenHost)?;
        let dom0 = dom0.map(|(files, kernel)| (Arc::new(files), kernel));
        Ok(Self {
            source,
            host,
            core: Arc::new(CoreView::of(subject, io)?),
            dom0: Box::leak(Box::new(dom0)),
        })
    }

    /// Lists the root directory.
    pub fn list(&self) -> Vec<(String, Entry)> {
        let (source, host, dom0) = (self.source, self.host, self.dom0);
        let kernel = dom0.as_ref().map(|(_, kernel)| *kernel);
        let core = Core::new(Arc::clone(&self.core), false);
        let mut list = vec![
            ("vmcore".into(), Entry::file(core)),
            ("console".into(), Entry::file(Text::new(|| console(host)))),
            (
                "info.json".into(),
                Entry::file(Text::new(move || info_text(source, host, kernel))),
            ),
        ];
        if let Ok((files, _)) = dom0 {
            let files = Arc::clone(files);
            list.push(("dom0".into(), Entry::directory(move || Ok(files.list()))));
        }
        list
    }
}

fn console(host: &Host) -> Result<Vec<u8>, ContentError> {
    host.console()
        .map_err(|error| ContentError(error.to_string()))
}

fn info_text(
    source: &Source,
    host: &Host,
    dom0: Result<&Kernel, &anyhow::Error>,
) -> Result<Vec<u8>, ContentError> {
    let text = info::host_json(source, host, dom0);
    let text = text.map_err(|error| ContentError(format!("{error:#}")))?;
    Ok(text.into_bytes())
}
