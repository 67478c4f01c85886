//! The types of the kernel's data: from BTF, which a kernel has in its memory, or from the
//! DWARF of a vmlinux.

pub mod btf;
#[cfg(feature = "dwarf")]
pub mod dwarf;
mod expression;
mod walk;

use crate::error::KernelError;

pub use expression::{WithAddedTypes, Written, parse_type};
pub use walk::{MemberLocation, find_member, find_nested_member, resolve, size_of, structure};

/// A type in its table, which alone can interpret the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u64);

impl TypeId {
    /// The type `void`.
    pub const VOID: Self = Self(0);
}

/// The shape of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// No data.
    Void,
    /// A base type: integer, character, bool or float; with its size in bytes.
    Base(u64),
    /// An enumeration, with its size in bytes.
    Enumeration(u64),
    /// A pointer.
    Pointer(TypeId),
    /// Elements of one type, with their number; 0 for a flexible array.
    Array(TypeId, u64),
    /// A struct, with its size in bytes.
    Struct(u64),
    /// A union, with its size in bytes.
    Union(u64),
    /// A struct, union or enumeration that is declared but not defined.
    Declaration,
    /// A typedef, or a type with a qualifier such as const.
    Alias(TypeId),
    /// A function.
    Function,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Name without `struct`, if any.
    pub name: Option<String>,
    /// Shape.
    pub shape: Shape,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name; an anonymous struct or union has none.
    pub name: Option<String>,
    /// Type.
    pub type_id: TypeId,
    /// Offset in bits from the start.
    pub bit_offset: u64,
    /// Size in bits, for a bit field.
    pub bit_size: Option<u64>,
}

/// Parameters and return type of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// Return type.
    pub returns: TypeId,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// True if the function is variadic.
    pub is_variadic: bool,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name, if the table has it: parameters of function pointers have none.
    pub name: Option<String>,
    /// Type.
    pub type_id: TypeId,
}

/// The representation of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Two's complement.
    Signed,
    /// Binary.
    Unsigned,
    /// 0 or 1.
    Boolean,
    /// IEEE 754.
    Float,
    /// Not specified by the table, or not a number.
    Unknown,
}

/// The namespace in which a name is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// `struct NAME`.
    Struct,
    /// `union NAME`.
    Union,
    /// `enum NAME`.
    Enumeration,
    /// A typedef.
    Typedef,
    /// A base type such as `unsigned int`.
    Base,
}

/// A table of types.
pub trait TypeTable {
    /// Returns a type.
    fn get(&self, id: TypeId) -> Result<Type, KernelError>;

    /// Returns the members of a struct or union, in order; of other types, none.
    fn members(&self, id: TypeId) -> Result<Vec<Member>, KernelError>;

    /// Returns the names and values of an enumeration.
    fn enumerators(&self, id: TypeId) -> Result<Vec<(String, i64)>, KernelError>;

    /// Finds a type by name. Declarations do not count.
    fn find(&self, named: Named, name: &str) -> Result<Option<TypeId>, KernelError>;

    /// Finds the value of an enumerator of any enumeration.
    fn enumerator(&self, name: &str) -> Result<Option<i64>, KernelError>;

    /// Returns the type of a variable, if the table has it. `address`, as linked, selects among
    /// variables of the same name.
    fn variable(&self, name: &str, address: Option<u64>) -> Result<Option<TypeId>, KernelError>;

    /// Finds a function by name; some tables have none.
    fn function(&self, _name: &str) -> Result<Option<TypeId>, KernelError> {
        Ok(None)
    }

    /// Returns parameters and return type of a function; `None` if unknown.
    fn prototype(&self, _id: TypeId) -> Result<Option<Prototype>, KernelError> {
        Ok(None)
    }

    /// Returns the C keyword before a type that its shape does not imply: `const`, `volatile`
    /// or `restrict` of an alias without a name, `struct` or `union` of a declaration.
    fn keyword(&self, _id: TypeId) -> Result<Option<&'static str>, KernelError> {
        Ok(None)
    }

    /// Returns the representation of a base type or an enumeration.
    fn encoding(&self, _id: TypeId) -> Result<Encoding, KernelError> {
        Ok(Encoding::Unknown)
    }
}
