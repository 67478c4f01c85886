//! Serves a mount until it is unmounted or a signal arrives.

use crate::fuse::{MountError, Mounted, Session, Unmounted};
use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::tell::{print, tell};

/// Mounts with `mount`, reports that `what` is mounted unless `quiet`, and serves it.
pub fn serve(
    mount: impl FnOnce() -> Result<Session, MountError>,
    what: &str,
    quiet: bool,
) -> anyhow::Result<()> {
    // Before mounting, so that no signal leaves the mount behind.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot catch signals")?;
    let handle = signals.handle();
    let serving = mount()?.start(move || handle.close())?;
    let directory = serving.mounted().directory().display();
    if !quiet {
        let text = format!(
            "{what} is mounted on {directory}; Ctrl-C or `umount {directory}` unmounts it\n"
        );
        if let Err(error) = print(&text) {
            serving.mounted().unmount()?;
            return Err(error);
        }
    }
    let mut is_asked = false;
    for signal in &mut signals {
        if is_asked {
            // Open files can no longer be read.
            std::process::exit(128 + signal);
        }
        is_asked = true;
        unmount(serving.mounted());
    }
    Ok(serving.join()?)
}

/// Unmounts, or reports why that takes time or is impossible.
fn unmount(mounted: &Mounted) {
    let directory = mounted.directory().display();
    match mounted.unmount() {
        Ok(Unmounted::Lazy) => tell!(
            "bigiron: {directory} is unmounted, but a program still has a file open or its working \
             directory there, and is served until it ends; a second signal exits at once"
        ),
        Ok(Unmounted::Clean | Unmounted::Already) => {}
        Err(error) => tell!("bigiron: {error}; it is served until then"),
    }
}
