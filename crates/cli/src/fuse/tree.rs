//! Directories and files with inode numbers. A directory is listed when it is first read.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::fuse::content::{Content, ContentError};

/// Maximum number of entries of a directory: above the number of CPUs, and a limit for
/// directories from damaged dumps.
const MAX_ENTRIES: usize = 1 << 17;

/// The entries of a directory.
pub type Listing = Vec<(String, Entry)>;
type List = dyn Fn() -> Result<Listing, ContentError> + Send + Sync;

/// A file or a directory.
pub enum Entry {
    /// A file.
    File(Box<dyn Content>),
    /// A directory, by its listing function.
    Directory(Box<List>),
}

impl Entry {
    /// Creates a file with this content.
    pub fn file(content: impl Content + 'static) -> Self {
        Self::File(Box::new(content))
    }

    /// Creates a directory, which `list` lists once.
    pub fn directory(
        list: impl Fn() -> Result<Listing, ContentError> + Send + Sync + 'static,
    ) -> Self {
        Self::Directory(Box::new(list))
    }
}

/// A file or directory in the tree.
pub(crate) struct Node {
    /// Number of the parent directory; the root is its own parent.
    pub(crate) parent: u64,
    pub(crate) entry: Entry,
    /// The entries, if it is a directory that was read.
    children: OnceLock<Result<Children, ContentError>>,
}

/// The entries of a directory.
#[derive(Default)]
pub(crate) struct Children {
    /// Name, number, and true for a directory, in order of listing.
    pub(crate) list: Vec<(String, u64, bool)>,
    by_name: HashMap<String, usize>,
}

impl Children {
    /// Returns the number of the entry with this name.
    pub(crate) fn find(&self, name: &str) -> Option<u64> {
        let index = *self.by_name.get(name)?;
        self.list.get(index).map(|(_, number, _)| *number)
    }
}

/// A tree of files. Numbers are inode numbers: the root is 1.
pub struct Tree {
    nodes: RwLock<Vec<Arc<Node>>>,
}

impl Tree {
    /// Creates a tree whose root `list` lists.
    pub fn new(list: impl Fn() -> Result<Listing, ContentError> + Send + Sync + 'static) -> Self {
        let root = Node {
            parent: 1,
            entry: Entry::directory(list),
            children: OnceLock::new(),
        };
        Self {
            nodes: RwLock::new(vec![Arc::new(root)]),
        }
    }

    /// Returns the file or directory with this number.
    pub(crate) fn node(&self, number: u64) -> Option<Arc<Node>> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.get(index).cloned()
    }

    /// Returns the entries of the directory `node`; `None` if it is not a directory.
    pub(crate) fn children<'n>(
        &self,
        number: u64,
        node: &'n Node,
    ) -> Option<Result<&'n Children, &'n ContentError>> {
        let Entry::Directory(list) = &node.entry else {
            return None;
        };
        let children = node
            .children
            .get_or_init(|| list().map(|listing| self.take_in(number, listing)));
        Some(children.as_ref())
    }

    fn take_in(&self, parent: u64, listing: Listing) -> Children {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let mut children = Children::default();
        for (name, entry) in listing.into_iter().take(MAX_ENTRIES) {
            // The kernel would reject invalid names.
            if !is_name(&name) || children.by_name.contains_key(&name) {
                continue;
            }
            let is_directory = matches!(entry, Entry::Directory(_));
            nodes.push(Arc::new(Node {
                parent,
                entry,
                children: OnceLock::new(),
            }));
            children.by_name.insert(name.clone(), children.list.len());
            children.list.push((name, nodes.len() as u64, is_directory));
        }
        children
    }
}

/// Returns true for a valid name (NAME_MAX of linux/limits.h).
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= 255 && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::content::Text;

    fn file(text: &'static str) -> Entry {
        Entry::file(Text::new(move || Ok(text.into())))
    }

    fn find(tree: &Tree, path: &str) -> Option<u64> {
        path.split('/').try_fold(1, |number, name| {
            let node = tree.node(number)?;
            tree.children(number, &node)?.ok()?.find(name)
        })
    }

    #[test]
    fn entries_keep_their_inode_numbers() {
        let tree = Tree::new(|| {
            let inner = Entry::directory(|| Ok(vec![("x".into(), file("x"))]));
            Ok(vec![("a".into(), file("a")), ("d".into(), inner)])
        });
        assert_eq!(find(&tree, "d/x"), Some(4));
        assert_eq!(find(&tree, "a"), Some(2));
        assert_eq!(find(&tree, "d/x"), Some(4));
        assert_eq!((find(&tree, "d/y"), find(&tree, "a/x")), (None, None));
        assert_eq!(tree.node(4).unwrap().parent, 3);
        assert!(tree.node(0).is_none() && tree.node(5).is_none());
        assert!(tree.node(u64::MAX).is_none());
    }

    #[test]
    fn invalid_names_are_skipped() {
        let tree = Tree::new(|| {
            let names = ["", ".", "..", "a/b", "a\0", "ok", "ok"];
            Ok(names.map(|name| (name.to_owned(), file(""))).into())
        });
        let root = tree.node(1).unwrap();
        let children = tree.children(1, &root).unwrap().ok().unwrap();
        assert_eq!(children.list, [("ok".to_owned(), 2, false)]);
    }

    #[test]
    fn failed_listing_reports_the_reason() {
        let tree = Tree::new(|| Err(ContentError("no symbols".into())));
        let root = tree.node(1).unwrap();
        let error = tree.children(1, &root).unwrap().err();
        assert_eq!(error, Some(&ContentError("no symbols".into())));
    }
}
