//! The types of the kernel's data: from BTF, which a kernel carries in its
//! memory, or from the DWARF of a vmlinux.

pub mod btf;
#[cfg(feature = "dwarf")]
pub mod dwarf;
mod expression;
mod walk;

use crate::error::KernelError;

pub use expression::{WithWritten, Written, parse_type};
pub use walk::{Place, find_member, resolve, size_of, structure};

/// A type in its table; what the number means only the table knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u64);

impl TypeId {
    /// The type `void`.
    pub const VOID: Self = Self(0);
}

/// What a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// No data.
    Void,
    /// A number: an integer, a character, a bool, a float; its size in bytes.
    Base(u64),
    /// An enumeration, and its size in bytes.
    Enumeration(u64),
    /// A pointer.
    Pointer(TypeId),
    /// So many elements of one type. A flexible array has none.
    Array(TypeId, u64),
    /// A struct, and its size in bytes.
    Struct(u64),
    /// A union, and its size in bytes.
    Union(u64),
    /// A struct, union or enumeration that is only named here.
    Declaration,
    /// A typedef, or the type with a qualifier such as const.
    Alias(TypeId),
    /// A function.
    Function,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Its name, without `struct`, if it has one.
    pub name: Option<String>,
    /// What it is.
    pub shape: Shape,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; a struct or union inside may have none.
    pub name: Option<String>,
    /// Its type.
    pub type_id: TypeId,
    /// Where it begins, in bits from the start.
    pub bit_offset: u64,
    /// How many bits it has, if it is a bit field.
    pub bit_size: Option<u64>,
}

/// What a function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// The type of what it gives.
    pub returns: TypeId,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// Whether it takes any number more.
    pub is_variadic: bool,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, where the table has it: pointers to functions have none.
    pub name: Option<String>,
    /// Its type.
    pub type_id: TypeId,
}

/// How a number is written in its bytes.
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
    /// The table does not say, or it is no number.
    Unknown,
}

/// What a name is looked for as.
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
    /// What the type is.
    fn get(&self, id: TypeId) -> Result<Type, KernelError>;

    /// The members of a struct or union, in order; none of anything else.
    fn members(&self, id: TypeId) -> Result<Vec<Member>, KernelError>;

    /// The names and values of an enumeration.
    fn enumerators(&self, id: TypeId) -> Result<Vec<(String, i64)>, KernelError>;

    /// A type by its name. Declarations do not count.
    fn find(&self, named: Named, name: &str) -> Result<Option<TypeId>, KernelError>;

    /// The value of an enumerator of any enumeration.
    fn enumerator(&self, name: &str) -> Result<Option<i64>, KernelError>;

    /// The type of a variable, where the table knows it. `address` chooses among
    /// variables of one name; it is the address that vmlinux was linked to.
    fn variable(&self, name: &str, address: Option<u64>) -> Result<Option<TypeId>, KernelError>;

    /// A function by its name; not all tables have them.
    fn function(&self, _name: &str) -> Result<Option<TypeId>, KernelError> {
        Ok(None)
    }

    /// What a function takes and gives; `None` where the table does not say.
    fn prototype(&self, _id: TypeId) -> Result<Option<Prototype>, KernelError> {
        Ok(None)
    }

    /// The word of C in front of a type that its shape does not tell: `const`,
    /// `volatile` or `restrict` of an alias without a name, `struct` or `union` of a
    /// declaration.
    fn keyword(&self, _id: TypeId) -> Result<Option<&'static str>, KernelError> {
        Ok(None)
    }

    /// How a base type or an enumeration is written in its bytes.
    fn encoding(&self, _id: TypeId) -> Result<Encoding, KernelError> {
        Ok(Encoding::Unknown)
    }
}
