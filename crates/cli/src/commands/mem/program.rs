//! Inspects a program's file to find out whether it loads the preload library.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use rustix::process::{getegid, geteuid, getgid, getuid};

/// Maximum depth of script interpreters, as in the kernel (fs/exec.c).
const MAX_INTERPRETERS: usize = 5;
/// Maximum number of program headers read.
const MAX_HEADERS: usize = 128;

const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const S_ISUID: u32 = 0o4000;
const S_ISGID_EXECUTABLE: u32 = 0o2010;

/// Whether a program loads the preload library, or the reason why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It does, as far as its file shows.
    Whole,
    /// It has no dynamic loader.
    Static,
    /// A Go program, which makes its system calls itself.
    Go,
    /// Its loader ignores LD_PRELOAD because of its additional privileges.
    Privileged,
    /// It is built for another processor or word size.
    OtherMachine,
    /// It uses another C library.
    Musl,
}

impl Reach {
    /// Returns the reason, as the end of a sentence.
    pub fn why_not(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Static => Some("is a static program and loads no libraries"),
            Self::Go => Some("is a Go program and does not use the C library for its memory"),
            Self::Privileged => Some(
                "has additional privileges (setuid, setgid or capabilities) and ignores LD_PRELOAD",
            ),
            Self::OtherMachine => Some("is built for another processor than bigiron"),
            Self::Musl => Some("uses the C library musl, and the preload library needs glibc"),
        }
    }

    /// True if LD_PRELOAD may be set: some loaders would fail. Programs that it starts may load the
    /// library even if it does not.
    pub fn may_preload(self) -> bool {
        !matches!(self, Self::OtherMachine | Self::Musl)
    }
}

/// Finds the file of a command as execvp(3) does.
pub fn find(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin")))
        .map(|directory| directory.join(name))
        .find(|file| {
            rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
        })
}

/// Inspects a program. Errors of one that cannot be read are left to execve(2).
pub fn reach(path: &Path) -> Reach {
    let mut path = path.to_owned();
    for _ in 0..MAX_INTERPRETERS {
        let Some(file) = Executable::open(&path) else {
            return Reach::Whole;
        };
        let Some(interpreter) = file.interpreter_of_script() else {
            return if is_privileged(&path) {
                Reach::Privileged
            } else {
                file.reach().unwrap_or(Reach::Whole)
            };
        };
        path = interpreter;
    }
    Reach::Whole
}

/// True if the kernel grants the program privileges that its caller lacks (AT_SECURE).
fn is_privileged(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    let mode = metadata.mode();
    let other_user = mode & S_ISUID != 0 && metadata.uid() != getuid().as_raw();
    let other_group =
        mode & S_ISGID_EXECUTABLE == S_ISGID_EXECUTABLE && metadata.gid() != getgid().as_raw();
    let capabilities =
        !getuid().is_root() && getxattr(path, "security.capability", &mut [0; 64][..]).is_ok();
    // Privileges of this process pass to the program.
    let already = geteuid() != getuid() || getegid() != getgid();
    other_user || other_group || capabilities || already
}

struct Executable {
    file: File,
    head: Vec<u8>,
}

impl Executable {
    fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut head = Vec::new();
        (&file).take(256).read_to_end(&mut head).ok()?;
        Some(Self { file, head })
    }

    fn interpreter_of_script(&self) -> Option<PathBuf> {
        let line = self.head.strip_prefix(b"#!")?;
        let line = line.split(|byte| *byte == b'\n').next()?;
        let mut words = line.split(|byte| b" \t".contains(byte));
        let word = words.find(|word| !word.is_empty())?;
        Some(PathBuf::from(OsStr::from_bytes(word)))
    }

    /// Returns `None` for files that are not ELF, or are truncated.
    fn reach(&self) -> Option<Reach> {
        let this = Self::open(Path::new("/proc/self/exe"))?;
        let header = Header::parse(&self.head)?;
        let ours = Header::parse(&this.head)?;
        if (header.machine, header.wide, header.little) != (ours.machine, ours.wide, ours.little) {
            return Some(Reach::OtherMachine);
        }
        let (mut loader, mut is_go) = (None, false);
        for number in 0..usize::from(header.count).min(MAX_HEADERS) {
            let mut room = [0; 56];
            let entry = room.get_mut(..if header.wide { 56 } else { 32 })?;
            let at = header.headers + number as u64 * u64::from(header.entry_size);
            self.file.read_exact_at(entry, at).ok()?;
            let (offset, size) = if header.wide {
                (header.u64(entry, 8)?, header.u64(entry, 32)?)
            } else {
                (header.u32(entry, 4)?.into(), header.u32(entry, 16)?.into())
            };
            let mut text = vec![0; size.min(256) as usize];
            let kind = header.u32(entry, 0)?;
            if matches!(kind, PT_INTERP | PT_NOTE) {
                self.file.read_exact_at(&mut text, offset).ok()?;
            }
            match kind {
                PT_INTERP => loader = Some(text),
                // The name follows n_namesz, n_descsz and n_type.
                PT_NOTE => is_go |= text.get(12..16) == Some(b"Go\0\0"),
                _ => {}
            }
        }
        let has = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|at| at == part);
        Some(match loader {
            // A Go program with a loader contains C code, but manages its memory itself.
            _ if is_go => Reach::Go,
            None => Reach::Static,
            Some(loader) if has(&loader, b"ld-musl") => Reach::Musl,
            Some(_) => Reach::Whole,
        })
    }
}

/// Fields of an ELF header.
struct Header {
    wide: bool,
    little: bool,
    machine: u16,
    headers: u64,
    entry_size: u16,
    count: u16,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..4) != Some(b"\x7fELF") {
            return None;
        }
        let mut header = Self {
            wide: bytes.get(4) == Some(&2),
            little: bytes.get(5) == Some(&1),
            machine: 0,
            headers: 0,
            entry_size: 0,
            count: 0,
        };
        header.machine = header.u16(bytes, 18)?;
        (header.headers, header.entry_size, header.count) = if header.wide {
            (
                header.u64(bytes, 32)?,
                header.u16(bytes, 54)?,
                header.u16(bytes, 56)?,
            )
        } else {
            let headers = header.u32(bytes, 28)?;
            (
                headers.into(),
                header.u16(bytes, 42)?,
                header.u16(bytes, 44)?,
            )
        };
        Some(header)
    }

    fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let field = bytes.get(at..)?.first_chunk()?;
        Some(if self.little {
            u16::from_le_bytes(*field)
        } else {
            u16::from_be_bytes(*field)
        })
    }

    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let field = bytes.get(at..)?.first_chunk()?;
        Some(if self.little {
            u32::from_le_bytes(*field)
        } else {
            u32::from_be_bytes(*field)
        })
    }

    fn u64(&self, bytes: &[u8], at: usize) -> Option<u64> {
        let field = bytes.get(at..)?.first_chunk()?;
        Some(if self.little {
            u64::from_le_bytes(*field)
        } else {
            u64::from_be_bytes(*field)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn commands_are_found_as_the_system_does() {
        let found = find(OsStr::new("sh"), Some(OsStr::new("/nowhere:/bin:/usr/bin")));
        assert_eq!(found, Some(PathBuf::from("/bin/sh")));
        assert_eq!(find(OsStr::new("no-such-program"), None), None);
        assert_eq!(find(OsStr::new("./x"), None), Some(PathBuf::from("./x")));
    }

    #[test]
    fn ordinary_programs_and_scripts_are_reached() {
        assert_eq!(reach(Path::new("/bin/sh")), Reach::Whole);
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        fs::write(&script, "#! /bin/sh -e\ntrue\n").unwrap();
        assert_eq!(reach(&script), Reach::Whole);
        // A script of itself ends somewhere.
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(reach(&script), Reach::Whole);
    }

    #[test]
    fn other_machines_and_programs_without_a_loader_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let mut elf = fs::read("/proc/self/exe").unwrap();
        elf.truncate(1 << 16);
        elf[18] ^= 1;
        fs::write(&path, &elf).unwrap();
        assert_eq!(reach(&path), Reach::OtherMachine);
        elf[18] ^= 1;
        // No program headers.
        elf[56..58].fill(0);
        fs::write(&path, &elf).unwrap();
        assert_eq!(reach(&path), Reach::Static);
    }
}
