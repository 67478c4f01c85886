//! Files and network, by Landlock (Linux 5.13; security/landlock in the kernel).

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use super::needs::Needs;

/// The newest version whose rights are denied; an older kernel denies those that it supports.
const VERSION: ABI = ABI::V6;
/// The device from which FUSE requests are read.
const FUSE: &str = "/dev/fuse";

/// Denies all access to files and the network, except for `needs`, and sets `no_new_privs`.
pub fn enter(needs: &Needs<'_>) -> Result<(), RulesetError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(match needs.has_network() {
            // Servers may be at any port.
            true => AccessNet::BindTcp.into(),
            false => AccessNet::from_all(VERSION),
        })?
        .scope(Scope::from_all(VERSION))?
        .create()?;
    if let Some(output) = needs.output() {
        // The final name, the end of the temporary one, and the sync of the directory.
        let rename = AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::ReadDir;
        rules = allow(rules, directory_of(output), rename)?;
    }
    if needs.has_fuse() {
        let serve = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules = allow(rules, Path::new(FUSE), serve)?;
    }
    if let Some(directory) = needs.keeps() {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let write = AccessFs::WriteFile | AccessFs::RemoveFile | AccessFs::Refer;
        let make = AccessFs::MakeReg | AccessFs::MakeDir;
        rules = allow(rules, directory, read | write | make)?;
    }
    for path in needs.reads() {
        let read = match path.is_dir() {
            true => AccessFs::ReadFile | AccessFs::ReadDir,
            false => AccessFs::ReadFile.into(),
        };
        rules = allow(rules, path, read)?;
    }
    rules.restrict_self()?;
    Ok(())
}

/// Allows `access` beneath a path; without the path there is nothing to allow.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(file) => rules.add_rule(PathBeneath::new(file, access)),
        Err(_) => Ok(rules),
    }
}

/// Returns the directory that has a file.
fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
