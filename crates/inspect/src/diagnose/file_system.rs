//! Finding: a file system that was shut down or aborted after an error, so that all that processes
//! do in it fails.
//!
//! Relies on `super_blocks`, on the flags of ext4 and XFS (`mounts`), on those of ext4's journal
//! (`ext4_sb_info.s_journal`, `journal_s.j_flags` and `j_errno`; include/linux/jbd2.h), on the
//! files and directories that processes use (`file_system_users`), and on the log.

use std::collections::HashMap;

use bigiron_format::VirtAddr;

use super::evidence::Evidence;
use super::file_system_users::{User, users};
use super::finding::{Finding, Sure};
use crate::error::InspectError;
use crate::modules::Structure;
use crate::mounts::ShutDown;
use crate::program::Program;

/// Kind.
pub const KIND: &str = "file-system";
/// Maximum number of file systems, and of bytes of a type's name.
const MAX_FILE_SYSTEMS: usize = 1 << 20;
const MAX_NAME: usize = 64;
/// SB_RDONLY (include/linux/fs.h) and JBD2_ABORT (include/linux/jbd2.h).
const READ_ONLY: u64 = 1;
const ABORTED: u64 = 2;
/// Users and lines of the log shown.
const SHOWN: usize = 6;
/// Words of the log's lines about a failed file system, besides its device.
const WORDS: [&str; 9] = [
    "-fs error",
    "Remounting filesystem read-only",
    "Aborting journal",
    "shut down",
    "shutdown",
    "Shutting down",
    "Detected aborted journal",
    "forced readonly",
    "Transaction aborted",
];

/// A file system that failed.
struct Failed {
    super_block: VirtAddr,
    device: String,
    filesystem: String,
    /// What its own structures say.
    because: Vec<String>,
    /// True if it is shut down; else it is read-only.
    shut_down: bool,
}

/// A finding for each failed file system.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let program = evidence.program;
    let head = program.symbol("super_blocks")?;
    let all = program.list(head, "super_block", "s_list", MAX_FILE_SYSTEMS)?;
    let shut_down = ShutDown::of(program);
    let ext4 = Structure::of(program, "ext4", "ext4_sb_info")?;
    let mut failed = Vec::new();
    for at in all.items {
        failed.extend(Failed::of(program, at, &shut_down, ext4.as_ref())?);
    }
    if failed.is_empty() {
        return Ok(Vec::new());
    }
    let of = failed.iter().map(|failed| failed.super_block).collect();
    let users = users(&program.renewed(), evidence.tasks()?, &of, evidence.stop);
    let findings = failed
        .iter()
        .map(|failed| finding(evidence, failed, &users));
    Ok(findings.collect())
}

impl Failed {
    fn of(
        program: &Program,
        at: VirtAddr,
        shut_down: &ShutDown,
        ext4: Option<&Structure>,
    ) -> Result<Option<Self>, InspectError> {
        let kind = program.pointer(at, "super_block", "s_type")?;
        let kind = program.pointer(kind, "file_system_type", "name")?;
        let filesystem = program.string(kind, MAX_NAME)?;
        let mut because = Vec::new();
        let is_shut_down = shut_down.is(program, &filesystem, at) == Some(true);
        if is_shut_down {
            because.push("its own flags say that it is shut down".to_owned());
        }
        if let Some(ext4) = ext4.filter(|_| filesystem == "ext4") {
            because.extend(journal(program, at, ext4).ok().flatten());
        }
        if because.is_empty() {
            return Ok(None);
        }
        if program.value(at, "super_block", "s_flags")? & READ_ONLY != 0 {
            because.push("its super block is read-only".to_owned());
        }
        Ok(Some(Self {
            super_block: at,
            device: program.text(at, "super_block", "s_id")?,
            filesystem,
            because,
            shut_down: is_shut_down,
        }))
    }

    /// Returns true for a line of the log that says why.
    fn is_about(&self, line: &str) -> bool {
        line.contains(&self.device) && WORDS.iter().any(|word| line.contains(word))
    }
}

/// Says that the journal of an ext4 file system is aborted.
fn journal(
    program: &Program,
    super_block: VirtAddr,
    ext4: &Structure,
) -> Result<Option<String>, InspectError> {
    let own = program.pointer(super_block, "super_block", "s_fs_info")?;
    let journal = ext4.pointer(own, "s_journal")?;
    if journal.0 == 0 {
        return Ok(None);
    }
    let Some(layout) = Structure::of(program, "jbd2", "journal_s")? else {
        return Ok(None);
    };
    if layout.value(journal, "j_flags")? & ABORTED == 0 {
        return Ok(None);
    }
    let error = (layout.value(journal, "j_errno")? as u32).cast_signed();
    Ok(Some(format!(
        "its journal is aborted, with the error {error}"
    )))
}

fn finding(evidence: &Evidence, failed: &Failed, users: &HashMap<VirtAddr, Vec<User>>) -> Finding {
    let program = evidence.program;
    let none = Vec::new();
    let users = users.get(&failed.super_block).unwrap_or(&none);
    // Tasks that wait for a part of it.
    let waits = evidence.waits().map_or(&[][..], |waits| &waits.waits);
    let waiting: Vec<_> = waits
        .iter()
        .filter(|wait| wait.device() == Some(&failed.device))
        .collect();
    let weight = match users.is_empty() && waiting.is_empty() {
        true => 40,
        false => 76,
    };
    let does = match failed.shut_down {
        true => "is shut down: whatever is done in it fails",
        false => "is aborted after an error: whatever is changed in it fails",
    };
    let title = format!(
        "the file system on {} ({}) {does}; {} processes use it and {} tasks wait for parts of it",
        failed.device,
        failed.filesystem,
        users.len(),
        waiting.len()
    );
    let mut finding = Finding::new(KIND, weight, Sure::Certain, title);
    for reason in &failed.because {
        finding = finding.because(reason.clone());
    }
    let lines = evidence.log().lines().map(|line| line.text.as_str());
    for line in lines.filter(|line| failed.is_about(line)).take(SHOWN) {
        finding = finding.because(format!("the log: {line}"));
    }
    for user in users.iter().take(SHOWN) {
        finding = finding
            .because(format!("{} has {} in it", user.task, user.what))
            .task(&user.task);
    }
    finding
        .waiters(waiting, "waits")
        .place(program, "super_block", failed.super_block)
        .more("bigiron info --mounts --waits DUMP")
        .more("bigiron dmesg DUMP")
}
