//! Answers FUSE requests for a tree that changes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::fuse::live::{Kind, LAST_RESERVED, Listed, Live, Refusal, RefusalKind};
use crate::fuse::served::{Served, configure};

/// Lifetime of cached entries and attributes: none, since the kernel is not notified of
/// changes.
const NOT_KEPT: Duration = Duration::ZERO;

/// A changing tree served by FUSE.
pub(crate) struct LiveFilesystem<L> {
    tree: L,
    served: Served,
    opened: Opened,
}

impl<L: Live> LiveFilesystem<L> {
    pub(crate) fn new(tree: L, served: Served) -> Self {
        Self {
            tree,
            served,
            opened: Opened::default(),
        }
    }

    fn attributes(&self, number: INodeNo, kind: Kind) -> FileAttr {
        let (kind, perm, size) = match kind {
            Kind::Directory => (FileType::Directory, 0o555, 0),
            Kind::File { writable, size } => {
                let perm = if writable { 0o644 } else { 0o444 };
                (FileType::RegularFile, perm, size)
            }
        };
        self.served.attributes(number, kind, perm, size)
    }

    fn look(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let kind = self.tree.look(number.0);
        let kind = kind.map_err(|refusal| self.refused(&refusal))?;
        Ok(self.attributes(number, kind))
    }

    fn find(&self, directory: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        let found = self.tree.find(directory.0, name);
        let (number, kind) = found.map_err(|refusal| self.refused(&refusal))?;
        Ok(self.attributes(INodeNo(number), kind))
    }

    /// Opens a file; the handle keeps its present contents.
    fn open_file(&self, number: INodeNo, mode: OpenAccMode) -> Result<FileHandle, Errno> {
        let kind = self.tree.look(number.0);
        let kind = kind.map_err(|refusal| self.refused(&refusal))?;
        let text = match (kind, mode) {
            (Kind::Directory, _) => return Err(Errno::EISDIR),
            (Kind::File { writable, .. }, OpenAccMode::O_WRONLY | OpenAccMode::O_RDWR)
                if !writable =>
            {
                return Err(Errno::EACCES);
            }
            (Kind::File { .. }, OpenAccMode::O_WRONLY) => Vec::new(),
            (Kind::File { .. }, _) => {
                let text = self.tree.read(number.0);
                text.map_err(|refusal| self.refused(&refusal))?
            }
        };
        Ok(self.opened.add(text))
    }

    fn refused(&self, refusal: &Refusal) -> Errno {
        match refusal.why {
            RefusalKind::Gone => Errno::ENOENT,
            why => {
                self.served.failed(&refusal.reason);
                errno(why)
            }
        }
    }
}

/// Returns the error number for the caller.
fn errno(why: RefusalKind) -> Errno {
    match why {
        RefusalKind::Gone => Errno::ENOENT,
        RefusalKind::Invalid => Errno::EINVAL,
        RefusalKind::Denied => Errno::EACCES,
        RefusalKind::ReadOnly => Errno::EROFS,
        RefusalKind::Changed => Errno::EAGAIN,
        RefusalKind::Failed => Errno::EIO,
    }
}

/// The contents of open files.
#[derive(Default)]
struct Opened {
    last: AtomicU64,
    texts: RwLock<HashMap<u64, Arc<[u8]>>>,
}

impl Opened {
    fn add(&self, text: Vec<u8>) -> FileHandle {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        texts.insert(handle, text.into());
        FileHandle(handle)
    }

    fn get(&self, handle: FileHandle) -> Option<Arc<[u8]>> {
        let texts = self.texts.read().unwrap_or_else(PoisonError::into_inner);
        texts.get(&handle.0).cloned()
    }

    fn remove(&self, handle: FileHandle) {
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        texts.remove(&handle.0);
    }
}

/// Returns the requested range of `text`.
fn range_of(text: &[u8], offset: u64, size: u32) -> &[u8] {
    let rest = usize::try_from(offset).map_or(&[][..], |at| text.get(at..).unwrap_or(&[]));
    rest.get(..size as usize).unwrap_or(rest)
}

/// Returns the entries of a directory after `offset`, each with the offset at which to
/// continue.
fn behind(listed: Listed, offset: u64) -> impl Iterator<Item = (u64, bool, String)> {
    let dots = [
        (1, true, ".".to_owned()),
        (LAST_RESERVED, true, "..".to_owned()),
    ];
    let entries = listed.entries.into_iter();
    let entries = entries.map(|(name, number, is_directory)| (number, is_directory, name));
    let all = dots.into_iter().chain(entries);
    all.filter(move |(place, ..)| *place > offset)
}

impl<L: Live> Filesystem for LiveFilesystem<L> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok(attributes) => reply.entry(&NOT_KEPT, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(number) {
            Ok(attributes) => reply.attr(&NOT_KEPT, &attributes),
            Err(error) => reply.error(error),
        }
    }

    /// Permits only truncation, which a shell's `>` does before it writes.
    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if size.is_none() || mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        match self.look(number) {
            Ok(attributes) => reply.attr(&NOT_KEPT, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(number, flags.acc_mode()) {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.opened.get(handle) {
            Some(text) => reply.data(range_of(&text, offset, size)),
            None => reply.error(Errno::EBADF),
        }
    }

    /// Each write is one command, at any offset, like simple_attr_write in fs/libfs.c.
    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.tree.write(number.0, data) {
            // The kernel sends at most the 16 MiB that were negotiated.
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(refusal) => {
                // Not limited in number: writes are rare, and the writer needs the reason.
                (self.served.tell)(&refusal.reason);
                reply.error(errno(refusal.why));
            }
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.opened.remove(handle);
        reply.ok();
    }

    // Files cannot be created or removed.

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = match self.tree.list(number.0) {
            Ok(listed) => listed,
            Err(refusal) => return reply.error(self.refused(&refusal)),
        };
        let parent = listed.parent;
        for (place, is_directory, name) in behind(listed, offset) {
            let inode = match place {
                1 => number.0,
                LAST_RESERVED => parent,
                inode => inode,
            };
            let kind = match is_directory {
                true => FileType::Directory,
                false => FileType::RegularFile,
            };
            if reply.add(INodeNo(inode), place, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_keeps_its_contents_until_it_is_closed() {
        let opened = Opened::default();
        let (first, second) = (opened.add(b"117\n".into()), opened.add(b"110\n".into()));
        assert_eq!(opened.get(first).as_deref(), Some(&b"117\n"[..]));
        opened.remove(first);
        assert_eq!(opened.get(first), None);
        assert_eq!(opened.get(second).as_deref(), Some(&b"110\n"[..]));
    }

    #[test]
    fn reads_stop_at_the_end_of_the_text() {
        assert_eq!(range_of(b"hello", 0, 9), b"hello");
        assert_eq!(range_of(b"hello", 3, 1), b"l");
        for offset in [5, 6, u64::MAX] {
            assert_eq!(range_of(b"hello", offset, 9), b"");
        }
    }

    #[test]
    fn listing_continues_after_entries_disappeared() {
        let listed = |numbers: &[u64]| Listed {
            parent: 1,
            entries: numbers
                .iter()
                .map(|number| (format!("cpu{number}"), *number, true))
                .collect(),
        };
        let names = |numbers: &[u64], offset| -> Vec<String> {
            let found = behind(listed(numbers), offset);
            found.map(|(_, _, name)| name).collect()
        };
        assert_eq!(
            names(&[100, 200, 300], 0),
            [".", "..", "cpu100", "cpu200", "cpu300"]
        );
        // After 200 was listed, it disappears and 150 appears.
        assert_eq!(names(&[100, 150, 300], 200), ["cpu300"]);
        assert_eq!(names(&[], 2), [""; 0]);
    }
}
