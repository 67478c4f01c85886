//! Walks the kernel's red-black trees (include/linux/rbtree_types.h).

use std::collections::HashSet;

use bigiron_format::VirtAddr;

use crate::error::InspectError;
use crate::program::{Program, Walk};

impl Program<'_, '_> {
    /// Walks the tree whose `struct rb_root` is at `root`, in order. Its elements are `name`,
    /// linked by their member `path`. Subtrees below an unreadable or repeated node are
    /// omitted; stops after `most` elements.
    pub fn tree(
        &self,
        root: VirtAddr,
        name: &str,
        path: &str,
        most: usize,
    ) -> Result<Walk, InspectError> {
        let offset = self.locate(name, path)?.offset;
        let top = self.pointer(root, "rb_root", "rb_node");
        let mut nodes = Nodes {
            program: self,
            most,
            seen: HashSet::new(),
            above: Vec::new(),
            walk: Walk::default(),
        };
        nodes.descend(top);
        while let Some(node) = nodes.above.pop() {
            let item = VirtAddr(node.0.wrapping_sub(offset));
            nodes.walk.items.push(item);
            nodes.descend(self.pointer(node, "rb_node", "rb_right"));
        }
        Ok(nodes.walk)
    }
}

struct Nodes<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    most: usize,
    seen: HashSet<VirtAddr>,
    /// Nodes whose left subtree is being walked.
    above: Vec<VirtAddr>,
    walk: Walk,
}

impl Nodes<'_, '_, '_> {
    /// Descends to the leftmost node.
    fn descend(&mut self, node: Result<VirtAddr, InspectError>) {
        let mut node = node;
        loop {
            let reason = match node {
                Ok(VirtAddr(0)) => return,
                Ok(at) if self.seen.len() >= self.most => {
                    format!("more than {} elements, at {at}", self.most)
                }
                Ok(at) if !self.seen.insert(at) => format!("the tree is cyclic at {at}"),
                Ok(at) => {
                    self.above.push(at);
                    node = self.program.pointer(at, "rb_node", "rb_left");
                    continue;
                }
                Err(error) => error.to_string(),
            };
            self.walk.cut.get_or_insert(reason);
            return;
        }
    }
}
