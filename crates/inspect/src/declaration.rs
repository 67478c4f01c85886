//! Formats types as C declarations.

use bigiron_kernel::KernelError;
use bigiron_kernel::types::{Prototype, Shape, TypeId, TypeTable};

/// Maximum nesting depth of pointers, arrays and functions. Kernels stay below a tenth of it; a
/// damaged table may be cyclic.
const MAX_DEPTH: usize = 32;
/// Maximum number of parameters in one declaration, including those of nested functions.
const MAX_PARAMETERS: usize = 256;

/// Formats a variable or function as a C declaration: `struct page *pages[4]`, `int
/// (*open)(struct inode *, struct file *)`; only the type if `name` is empty.
pub fn declaration(types: &dyn TypeTable, id: TypeId, name: &str) -> Result<String, KernelError> {
    let mut left = MAX_PARAMETERS;
    declare(types, id, name, MAX_DEPTH, &mut left)
}

fn declare(
    types: &dyn TypeTable,
    mut id: TypeId,
    name: &str,
    depth: usize,
    left: &mut usize,
) -> Result<String, KernelError> {
    let mut inner = name.to_owned();
    let mut behind_pointer = false;
    // Qualifiers of the next layer towards the innermost type.
    let mut words = String::new();
    for step in 0..depth {
        let found = types.get(id)?;
        let base = match (found.shape, found.name) {
            (Shape::Pointer(to), _) => {
                let blank = if words.is_empty() || inner.is_empty() {
                    ""
                } else {
                    " "
                };
                inner = format!("*{}{blank}{inner}", words.trim_end());
                words.clear();
                (id, behind_pointer) = (to, true);
                continue;
            }
            (Shape::Array(element, count), _) => {
                inner = enclosed(inner, behind_pointer);
                inner.push_str(&format!("[{count}]"));
                (id, behind_pointer) = (element, false);
                continue;
            }
            (Shape::Alias(to), None) => {
                if let Some(word) = types.keyword(id)? {
                    words = format!("{word} {words}");
                }
                id = to;
                continue;
            }
            (Shape::Function, _) => {
                inner = enclosed(inner, behind_pointer);
                let Some(prototype) = types.prototype(id)? else {
                    inner.push_str("(…)");
                    return Ok(format!("function {inner}"));
                };
                let parameters = parameters(types, &prototype, depth - step - 1, left)?;
                inner.push_str(&format!("({parameters})"));
                words.clear();
                (id, behind_pointer) = (prototype.returns, false);
                continue;
            }
            (Shape::Struct(_), name) => tagged("struct", name),
            (Shape::Union(_), name) => tagged("union", name),
            (Shape::Enumeration(_), name) => tagged("enum", name),
            (Shape::Void, _) => "void".to_owned(),
            (Shape::Declaration, name) => tagged(types.keyword(id)?.unwrap_or("struct"), name),
            (Shape::Alias(_) | Shape::Base(_), name) => name.unwrap_or_default(),
        };
        return Ok(format!("{words}{base} {inner}").trim_end().to_owned());
    }
    Err(too_deep(format!("nested more than {MAX_DEPTH} deep")))
}

fn parameters(
    types: &dyn TypeTable,
    prototype: &Prototype,
    depth: usize,
    left: &mut usize,
) -> Result<String, KernelError> {
    *left = left
        .checked_sub(prototype.parameters.len())
        .ok_or_else(|| {
            too_deep(format!(
                "a function of more than {MAX_PARAMETERS} parameters"
            ))
        })?;
    let mut all = Vec::new();
    for parameter in &prototype.parameters {
        let name = parameter.name.as_deref().unwrap_or("");
        all.push(declare(types, parameter.type_id, name, depth, left)?);
    }
    if prototype.is_variadic {
        all.push("...".to_owned());
    }
    if all.is_empty() {
        all.push("void".to_owned());
    }
    Ok(all.join(", "))
}

fn too_deep(found: String) -> KernelError {
    KernelError::Implausible {
        what: "a pointer, array or function in the kernel's types".into(),
        found,
        expected: "an end",
    }
}

fn enclosed(inner: String, behind_pointer: bool) -> String {
    if behind_pointer {
        format!("({inner})")
    } else {
        inner
    }
}

fn tagged(kind: &str, name: Option<String>) -> String {
    name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"))
}
