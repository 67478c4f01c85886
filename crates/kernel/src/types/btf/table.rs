//! `TypeTable` for BTF.

use super::names::Group;
use super::{Btf, kind};
use crate::error::KernelError;
use crate::types::{Encoding, Member, Named, Parameter, Prototype, Shape, Type, TypeId, TypeTable};

/// Bits of an integer's encoding (BTF_INT_SIGNED, BTF_INT_BOOL), from bit 24 on.
const SIGNED: u32 = 1;
const BOOL: u32 = 4;

impl TypeTable for Btf {
    fn get(&self, id: TypeId) -> Result<Type, KernelError> {
        if id == TypeId::VOID {
            return Ok(Type {
                name: None,
                shape: Shape::Void,
            });
        }
        let own = self.owner(id);
        let head = own.head(id)?;
        let size = u64::from(head.size_or_type);
        let to = TypeId(size);
        let shape = match head.kind {
            kind::INT | kind::FLOAT => Shape::Base(size),
            kind::PTR => Shape::Pointer(to),
            kind::ARRAY => Shape::Array(
                TypeId(u64::from(own.u32_at(head.rest))),
                u64::from(own.u32_at(head.rest + 8)),
            ),
            kind::STRUCT => Shape::Struct(size),
            kind::UNION => Shape::Union(size),
            kind::ENUM | kind::ENUM64 => Shape::Enumeration(size),
            kind::FWD => Shape::Declaration,
            kind::TYPEDEF
            | kind::VOLATILE
            | kind::CONST
            | kind::RESTRICT
            | kind::TYPE_TAG
            | kind::VAR => Shape::Alias(to),
            kind::FUNC | kind::FUNC_PROTO => Shape::Function,
            // Sections and declaration tags are not types of data.
            _ => Shape::Void,
        };
        // The name of a type tag is an attribute, not the name of a type.
        let is_tag = head.kind == kind::TYPE_TAG;
        let name = own.name(head.name).filter(|_| !is_tag);
        Ok(Type {
            name: name.map(str::to_owned),
            shape,
        })
    }

    fn members(&self, id: TypeId) -> Result<Vec<Member>, KernelError> {
        if id == TypeId::VOID {
            return Ok(Vec::new());
        }
        let own = self.owner(id);
        let head = own.head(id)?;
        if !matches!(head.kind, kind::STRUCT | kind::UNION) {
            return Ok(Vec::new());
        }
        let member = |index| {
            let at = head.rest + 12 * index;
            let (name, type_id, offset) = (own.u32_at(at), own.u32_at(at + 4), own.u32_at(at + 8));
            let (bit_offset, bit_size) = if head.flag {
                let bits = u64::from(offset >> 24);
                (u64::from(offset & 0xff_ffff), (bits > 0).then_some(bits))
            } else {
                match self.integer_bits(type_id) {
                    Some((start, bits)) => (u64::from(offset) + start, Some(bits)),
                    None => (u64::from(offset), None),
                }
            };
            Member {
                name: own.name(name).map(str::to_owned),
                type_id: TypeId(u64::from(type_id)),
                bit_offset,
                bit_size,
            }
        };
        Ok((0..head.count).map(member).collect())
    }

    fn enumerators(&self, id: TypeId) -> Result<Vec<(String, i64)>, KernelError> {
        if id == TypeId::VOID {
            return Ok(Vec::new());
        }
        let own = self.owner(id);
        let head = own.head(id)?;
        let value = |at: usize| match (head.kind, head.flag) {
            (kind::ENUM, true) => i64::from(own.u32_at(at + 4).cast_signed()),
            (kind::ENUM, false) => i64::from(own.u32_at(at + 4)),
            _ => {
                let (low, high) = (own.u32_at(at + 4), own.u32_at(at + 8));
                (u64::from(high) << 32 | u64::from(low)).cast_signed()
            }
        };
        let width = match head.kind {
            kind::ENUM => 8,
            kind::ENUM64 => 12,
            _ => return Ok(Vec::new()),
        };
        let places = (0..head.count).map(|index| head.rest + width * index);
        Ok(places
            .filter_map(|at| Some((own.name(own.u32_at(at))?.to_owned(), value(at))))
            .collect())
    }

    fn find(&self, named: Named, name: &str) -> Result<Option<TypeId>, KernelError> {
        match (self.named(Group::Type(named), name), &self.base) {
            (Some((id, _)), _) => Ok(Some(id)),
            (None, Some(base)) => base.find(named, name),
            (None, None) => Ok(None),
        }
    }

    fn enumerator(&self, name: &str) -> Result<Option<i64>, KernelError> {
        for (id, head) in self.heads() {
            if !matches!(head.kind, kind::ENUM | kind::ENUM64) {
                continue;
            }
            let values = self.enumerators(id)?;
            if let Some((_, value)) = values.into_iter().find(|(found, _)| found == name) {
                return Ok(Some(value));
            }
        }
        match &self.base {
            Some(base) => base.enumerator(name),
            None => Ok(None),
        }
    }

    fn variable(&self, name: &str, _address: Option<u64>) -> Result<Option<TypeId>, KernelError> {
        match (self.named(Group::Variable, name), &self.base) {
            (Some((_, head)), _) => Ok(Some(TypeId(u64::from(head.size_or_type)))),
            (None, Some(base)) => base.variable(name, None),
            (None, None) => Ok(None),
        }
    }

    fn function(&self, name: &str) -> Result<Option<TypeId>, KernelError> {
        match (self.named(Group::Function, name), &self.base) {
            (Some((id, _)), _) => Ok(Some(id)),
            (None, Some(base)) => base.function(name),
            (None, None) => Ok(None),
        }
    }

    fn prototype(&self, id: TypeId) -> Result<Option<Prototype>, KernelError> {
        if id == TypeId::VOID {
            return Ok(None);
        }
        let mut own = self.owner(id);
        let mut head = own.head(id)?;
        if head.kind == kind::FUNC {
            let id = TypeId(u64::from(head.size_or_type));
            if id == TypeId::VOID {
                return Ok(None);
            }
            own = self.owner(id);
            head = own.head(id)?;
        }
        if head.kind != kind::FUNC_PROTO {
            return Ok(None);
        }
        let parameter = |index| {
            let at = head.rest + 8 * index;
            Parameter {
                name: own.name(own.u32_at(at)).map(str::to_owned),
                type_id: TypeId(u64::from(own.u32_at(at + 4))),
            }
        };
        let mut parameters: Vec<_> = (0..head.count).map(parameter).collect();
        // `...` is a last parameter without name and type.
        let is_variadic = parameters
            .pop_if(|last| last.name.is_none() && last.type_id == TypeId::VOID)
            .is_some();
        Ok(Some(Prototype {
            returns: TypeId(u64::from(head.size_or_type)),
            parameters,
            is_variadic,
        }))
    }

    fn keyword(&self, id: TypeId) -> Result<Option<&'static str>, KernelError> {
        if id == TypeId::VOID {
            return Ok(None);
        }
        let head = self.owner(id).head(id)?;
        Ok(match head.kind {
            kind::CONST => Some("const"),
            kind::VOLATILE => Some("volatile"),
            kind::RESTRICT => Some("restrict"),
            kind::FWD if head.flag => Some("union"),
            kind::FWD => Some("struct"),
            _ => None,
        })
    }

    fn encoding(&self, id: TypeId) -> Result<Encoding, KernelError> {
        if id == TypeId::VOID {
            return Ok(Encoding::Unknown);
        }
        let own = self.owner(id);
        let head = own.head(id)?;
        Ok(match head.kind {
            kind::FLOAT => Encoding::Float,
            kind::INT => match own.u32_at(head.rest) >> 24 {
                bits if bits & BOOL != 0 => Encoding::Boolean,
                bits if bits & SIGNED != 0 => Encoding::Signed,
                _ => Encoding::Unsigned,
            },
            kind::ENUM | kind::ENUM64 if head.flag => Encoding::Signed,
            kind::ENUM | kind::ENUM64 => Encoding::Unsigned,
            _ => Encoding::Unknown,
        })
    }
}
