//! The files of a mounted dump.

use std::sync::Arc;

use crate::fuse::{Content, ContentError, Entry, Text};
use bigiron_dump::{CoreView, DumpError};
use bigiron_kernel::{IoMethod, Kernel};

use super::sched::{self, Names};
use crate::commands::{dmesg, info};
use crate::tell::tell;

/// The kernel and its memory, from which the files are generated.
pub struct Files {
    kernel: &'static Kernel<'static>,
    core: Arc<CoreView<'static>>,
}

impl Files {
    /// Creates the files of `kernel`'s dump, which is read by the method `io`.
    pub fn new(kernel: &'static Kernel<'static>, io: IoMethod) -> Result<Self, DumpError> {
        Ok(Self {
            kernel,
            core: Arc::new(CoreView::new(kernel, io)?),
        })
    }

    /// Lists the root directory.
    pub fn list(&self) -> Vec<(String, Entry)> {
        let kernel = self.kernel;
        let core = Core::new(Arc::clone(&self.core), kernel.source().is_live());
        let vmcoreinfo = Text::new(|| Ok(kernel.info().text().as_bytes().to_vec()));
        let names = Arc::new(Names::new(kernel));
        vec![
            ("vmcore".into(), Entry::file(core)),
            (
                "dmesg".into(),
                Entry::file(Text::new(|| dmesg_text(kernel))),
            ),
            ("vmcoreinfo".into(), Entry::file(vmcoreinfo)),
            (
                "info.json".into(),
                Entry::file(Text::new(|| info_text(kernel))),
            ),
            ("sched".into(), sched::directory(names)),
        ]
    }
}

/// The dump as an ELF core.
pub struct Core {
    view: Arc<CoreView<'static>>,
    is_live: bool,
}

impl Core {
    /// Creates the file of a core, which changes while it is read if the kernel is running.
    pub fn new(view: Arc<CoreView<'static>>, is_live: bool) -> Self {
        Self { view, is_live }
    }
}

impl Content for Core {
    fn size(&self) -> Result<u64, ContentError> {
        Ok(self.view.size())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ContentError> {
        Ok(self.view.read_at(offset, buf)?)
    }

    fn changes(&self) -> bool {
        self.is_live
    }
}

fn dmesg_text(kernel: &Kernel) -> Result<Vec<u8>, ContentError> {
    let (text, summary) = dmesg::plain(kernel)?;
    for warning in summary.warnings() {
        tell!("bigiron: warning: {warning}");
    }
    Ok(text)
}

fn info_text(kernel: &Kernel) -> Result<Vec<u8>, ContentError> {
    let text = info::json(kernel).map_err(|error| ContentError(format!("{error:#}")))?;
    Ok(text.into_bytes())
}
