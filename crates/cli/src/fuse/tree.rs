//! Directories and files, each with a number. What is in a directory is found out
//! when somebody looks into it first.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::fuse::content::{Content, ContentError};

/// Entries of one directory, at most: more than CPUs, and what keeps a directory
/// that is made from a damaged dump from taking all memory.
const MAX_ENTRIES: usize = 1 << 17;

/// What a directory lists.
pub type Listing = Vec<(String, Entry)>;
type List = dyn Fn() -> Result<Listing, ContentError> + Send + Sync;

/// A file or a directory.
pub enum Entry {
    /// A file.
    File(Box<dyn Content>),
    /// A directory, by what lists it.
    Directory(Box<List>),
}

impl Entry {
    /// A file.
    pub fn file(content: impl Content + 'static) -> Self {
        Self::File(Box::new(content))
    }

    /// A directory with what `list` gives. It is asked once.
    pub fn directory(
        list: impl Fn() -> Result<Listing, ContentError> + Send + Sync + 'static,
    ) -> Self {
        Self::Directory(Box::new(list))
    }
}

/// A file or a directory at its place in the tree.
pub(crate) struct Node {
    /// The number of the directory that it is in; the root's is its own.
    pub(crate) parent: u64,
    pub(crate) entry: Entry,
    /// What is in it, if it is a directory and was looked into.
    children: OnceLock<Result<Children, ContentError>>,
}

/// What is in a directory.
#[derive(Default)]
pub(crate) struct Children {
    /// In the order in which they are listed: name, number, whether it is a directory.
    pub(crate) list: Vec<(String, u64, bool)>,
    by_name: HashMap<String, usize>,
}

impl Children {
    /// The number of the entry of that name.
    pub(crate) fn find(&self, name: &str) -> Option<u64> {
        let index = *self.by_name.get(name)?;
        self.list.get(index).map(|(_, number, _)| *number)
    }
}

/// A tree of files. Numbers are those of inodes: the root is 1.
pub struct Tree {
    nodes: RwLock<Vec<Arc<Node>>>,
}

impl Tree {
    /// A tree whose root lists what `list` gives.
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

    /// The file or directory of that number.
    pub(crate) fn node(&self, number: u64) -> Option<Arc<Node>> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.get(index).cloned()
    }

    /// What is in the directory `node` of that number; `None` if it is none.
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
            // The names of a tree are ours; one that is none would confuse the kernel.
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

/// Whether a directory can list this name (NAME_MAX of linux/limits.h).
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
    fn what_is_in_a_directory_keeps_its_number() {
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
    fn names_that_a_directory_cannot_have_are_passed_over() {
        let tree = Tree::new(|| {
            let names = ["", ".", "..", "a/b", "a\0", "ok", "ok"];
            Ok(names.map(|name| (name.to_owned(), file(""))).into())
        });
        let root = tree.node(1).unwrap();
        let children = tree.children(1, &root).unwrap().ok().unwrap();
        assert_eq!(children.list, [("ok".to_owned(), 2, false)]);
    }

    #[test]
    fn a_directory_that_cannot_be_listed_says_why() {
        let tree = Tree::new(|| Err(ContentError("no symbols".into())));
        let root = tree.node(1).unwrap();
        let error = tree.children(1, &root).unwrap().err();
        assert_eq!(error, Some(&ContentError("no symbols".into())));
    }
}
