//! Answers FUSE requests for a tree that does not change.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEntry, ReplyOpen, Request,
};

use crate::fuse::content::ContentError;
use crate::fuse::served::{Served, configure};
use crate::fuse::tree::{Children, Entry, Node, Tree};

/// The tree does not change, so the kernel may cache its entries.
const FOREVER: Duration = Duration::from_secs(86_400);

/// A tree served by FUSE.
pub(crate) struct TreeFilesystem {
    pub(crate) tree: Tree,
    pub(crate) served: Served,
}

thread_local! {
    /// A read buffer per thread, so that it is not allocated and zeroed each time.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl TreeFilesystem {
    fn node(&self, number: INodeNo) -> Result<std::sync::Arc<Node>, Errno> {
        self.tree.node(number.0).ok_or(Errno::ENOENT)
    }

    fn children<'n>(&self, number: INodeNo, node: &'n Node) -> Result<&'n Children, Errno> {
        let children = self.tree.children(number.0, node).ok_or(Errno::ENOTDIR)?;
        children.map_err(|error| self.failed(error))
    }

    fn attributes(&self, number: INodeNo, node: &Node) -> FileAttr {
        let (kind, perm, size) = match &node.entry {
            Entry::Directory(_) => (FileType::Directory, 0o500, 0),
            // A file whose generation fails exists nevertheless; opening it fails.
            Entry::File(content) => {
                let size = content.size().unwrap_or_else(|error| {
                    self.failed(&error);
                    0
                });
                (FileType::RegularFile, 0o400, size)
            }
        };
        self.served.attributes(number, kind, perm, size)
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let directory = self.node(parent)?;
        let children = self.children(parent, &directory)?;
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        let number = INodeNo(children.find(name).ok_or(Errno::ENOENT)?);
        Ok(self.attributes(number, self.node(number)?.as_ref()))
    }

    fn opened(&self, number: INodeNo, flags: OpenFlags) -> Result<FopenFlags, Errno> {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return Err(Errno::EROFS);
        }
        match &self.node(number)?.entry {
            Entry::Directory(_) => Err(Errno::EISDIR),
            Entry::File(content) => {
                content.size().map_err(|error| self.failed(&error))?;
                Ok(if content.changes() {
                    FopenFlags::FOPEN_DIRECT_IO
                } else {
                    FopenFlags::FOPEN_KEEP_CACHE
                })
            }
        }
    }

    fn failed(&self, error: &ContentError) -> Errno {
        self.served.failed(&error.0)
    }
}

impl Filesystem for TreeFilesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(number) {
            Ok(node) => reply.attr(&FOREVER, &self.attributes(number, &node)),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(number, flags) {
            Ok(flags) => reply.opened(FileHandle(0), flags),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let node = match self.node(number) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let Entry::File(content) = &node.entry else {
            return reply.error(Errno::EISDIR);
        };
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match content.read_at(offset, &mut buffer[..size]) {
                Ok(count) => reply.data(&buffer[..count.min(size)]),
                Err(error) => reply.error(self.failed(&error)),
            }
        });
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let node = match self.node(number) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let children = match self.children(number, &node) {
            Ok(children) => children,
            Err(error) => return reply.error(error),
        };
        // An offset is the number of preceding entries, of which these two are the first.
        let dots = [(number.0, "."), (node.parent, "..")];
        let dots = dots.map(|(number, name)| (number, true, name));
        let listed = children.list.iter();
        let listed = listed.map(|(name, number, is_directory)| (*number, *is_directory, &name[..]));
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, entry) in dots.into_iter().chain(listed).enumerate().skip(first) {
            let (number, is_directory, name) = entry;
            let kind = match is_directory {
                true => FileType::Directory,
                false => FileType::RegularFile,
            };
            if reply.add(INodeNo(number), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
