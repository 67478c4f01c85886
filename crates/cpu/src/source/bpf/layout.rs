//! Layout of the kernel's structures, from its own types, and of the map that the program
//! fills.

use bigiron_format::bytes::Endian;
use bigiron_kernel::KernelError;
use bigiron_kernel::types::btf::Btf;
use bigiron_kernel::types::{self, MemberLocation, TypeId};

use super::BpfError;
use crate::domains::{SchedDomain, Tunables};
use crate::flags;

/// Maximum number of domains copied per CPU. SMT, cluster, cache, package, node, and a level
/// for each distance between nodes (eight on the largest known machines) are less than half of
/// it.
pub(super) const MAX_DOMAINS: usize = 32;
/// Size of a name in bytes; the kernel's names are shorter.
pub(super) const NAME: usize = 16;
/// Size of the header in bytes: the number of domains copied, and the address of the next
/// domain, which is 0 after the last one.
pub(super) const HEAD: usize = 16;
/// Size of the header of each domain in bytes: its address, the flags of its group, its name.
pub(super) const BEFORE: usize = 16 + NAME;
/// Maximum size of a struct in bytes. The largest, a run queue, has some thousand bytes for
/// each scheduling class.
const MAX_STRUCT: u64 = 1 << 16;
/// Maximum number of CPUs; NR_CPUS of every kernel is smaller.
const MAX_CPUS: usize = 1 << 16;

const NATIVE: Endian = if cfg!(target_endian = "little") {
    Endian::Little
} else {
    Endian::Big
};

/// Offsets and sizes in a kernel, in bytes.
#[derive(Debug)]
pub struct Layout {
    /// BTF ID of the variable `runqueues`.
    pub(super) runqueues: u32,
    pub(super) rq_sd: i32,
    pub(super) rq_rd: i32,
    pub(super) parent: i16,
    pub(super) groups: i16,
    pub(super) group_flags: i32,
    /// `None` for a kernel without CONFIG_SCHED_DEBUG.
    pub(super) name: Option<i16>,
    /// Size of a domain, including its span.
    pub(super) domain_size: usize,
    span: usize,
    cpus: usize,
    fields: Fields,
    flags: Vec<(u64, String)>,
}

/// Numeric members of struct sched_domain.
#[derive(Debug)]
struct Fields {
    level: Field,
    flags: Field,
    min_interval: Field,
    max_interval: Field,
    busy_factor: Field,
    imbalance_pct: Field,
    cache_nice_tries: Field,
    max_newidle_lb_cost: Field,
}

/// Offset and size of a member in bytes; the size is 4 or 8.
type Field = (usize, usize);

/// Struct of the kernel.
struct Struct<'t> {
    types: &'t Btf,
    name: &'static str,
    id: TypeId,
    size: u64,
}

impl<'t> Struct<'t> {
    fn of(types: &'t Btf, name: &'static str) -> Result<Self, BpfError> {
        let id = types::structure(types, name).map_err(damaged)?;
        let id = id.ok_or_else(|| lacks(&format!("struct {name}")))?;
        let size = types::size_of(types, id).map_err(damaged)?;
        let size = size.filter(|size| *size <= MAX_STRUCT);
        let size = size.ok_or_else(|| lacks(&format!("struct {name} of valid size")))?;
        Ok(Self {
            types,
            name,
            id,
            size,
        })
    }

    /// Returns a member that begins inside the struct, or directly after it if the member has
    /// no size of its own.
    fn member(&self, name: &str) -> Result<Option<MemberLocation>, BpfError> {
        let member = types::find_member(self.types, self.id, name).map_err(damaged)?;
        Ok(member.filter(|member| member.offset <= self.size && member.bits.is_none()))
    }

    /// Returns the offset of a member of `size` bytes that lies inside the struct.
    fn offset<T: TryFrom<u64>>(&self, name: &str, size: u64) -> Result<T, BpfError> {
        let lacks = || lacks(&format!("member {}.{name} of {size} bytes", self.name));
        let member = self.member(name)?.ok_or_else(lacks)?;
        let own = types::size_of(self.types, member.type_id).map_err(damaged)?;
        let inside = own == Some(size) && member.offset + size <= self.size;
        let offset = inside.then(|| T::try_from(member.offset).ok()).flatten();
        offset.ok_or_else(lacks)
    }

    fn number(&self, name: &str) -> Result<Field, BpfError> {
        let long = self.offset(name, 8).map(|offset| (offset, 8));
        long.or_else(|_| self.offset(name, 4).map(|offset| (offset, 4)))
    }
}

fn lacks(what: &str) -> BpfError {
    BpfError::Lacks(format!("no {what}"))
}

fn damaged(error: KernelError) -> BpfError {
    BpfError::Lacks(error.to_string())
}

impl Layout {
    /// Determines the layout from the types (BTF) of a kernel whose CPU numbers are below
    /// `cpus`.
    ///
    /// # Errors
    /// The types are damaged, or lack a struct, a member or the variable.
    pub fn of(types: Vec<u8>, cpus: usize) -> Result<Self, BpfError> {
        const POINTER: u64 = size_of::<usize>() as u64;
        let cpus = cpus.clamp(1, MAX_CPUS);
        let types = Btf::parse(types, NATIVE).map_err(damaged)?;
        let domain = Struct::of(&types, "sched_domain")?;
        let queue = Struct::of(&types, "rq")?;
        let group = Struct::of(&types, "sched_group")?;
        // A flexible array at the end, or no member (e379dce8af11): the mask then follows the
        // struct directly.
        let span = domain.member("span")?;
        let span = span.map_or(domain.size, |span| span.offset) as usize;
        let runqueues = types.variable_number("runqueues");
        Ok(Self {
            runqueues: runqueues.ok_or_else(|| lacks("variable runqueues"))?,
            rq_sd: queue.offset("sd", POINTER)?,
            rq_rd: queue.offset("rd", POINTER)?,
            parent: domain.offset("parent", POINTER)?,
            groups: domain.offset("groups", POINTER)?,
            group_flags: group.offset("flags", 4)?,
            name: domain.offset("name", POINTER).ok(),
            // Masks consist of whole longs (cpumask_size, include/linux/cpumask.h).
            domain_size: span.max(domain.size as usize) + cpus.div_ceil(64) * 8,
            span,
            cpus,
            fields: Fields {
                level: domain.number("level")?,
                flags: domain.number("flags")?,
                min_interval: domain.number("min_interval")?,
                max_interval: domain.number("max_interval")?,
                busy_factor: domain.number("busy_factor")?,
                imbalance_pct: domain.number("imbalance_pct")?,
                cache_nice_tries: domain.number("cache_nice_tries")?,
                max_newidle_lb_cost: domain.number("max_newidle_lb_cost")?,
            },
            flags: flags::of_types(&types).map_err(damaged)?,
        })
    }

    /// Returns the size of a domain's slot in bytes.
    pub(super) fn stride(&self) -> usize {
        (BEFORE + self.domain_size).next_multiple_of(8)
    }

    /// Returns the offset of a domain's slot.
    fn offset_of(&self, number: usize) -> usize {
        HEAD + number * self.stride()
    }

    /// Returns the size of the map's value in bytes.
    pub fn value_size(&self) -> usize {
        self.offset_of(MAX_DOMAINS)
    }

    /// Decodes the domains of a CPU from the map's value.
    ///
    /// # Errors
    /// The chain has no end, or `value` was not written by the program.
    pub fn chain(&self, cpu: u32, value: &[u8]) -> Result<Vec<SchedDomain>, BpfError> {
        let head = |offset| number(value, (offset, 8)).unwrap_or(u64::MAX);
        let count = head(0).min(MAX_DOMAINS as u64) as usize;
        let domain = |at| {
            self.domain(
                cpu,
                at,
                value.get(self.offset_of(at)..self.offset_of(at + 1))?,
            )
        };
        let chain: Vec<SchedDomain> = (0..count).map_while(domain).collect();
        if head(8) == 0 && chain.len() == count {
            return Ok(chain);
        }
        let found = chain.len();
        Err(BpfError::Chain { cpu, found })
    }

    fn domain(&self, cpu: u32, at: usize, record: &[u8]) -> Option<SchedDomain> {
        let (before, domain) = record.split_at_checked(BEFORE)?;
        let value = |field: Field| number(domain, field);
        let short = |field: Field| value(field).map(|value| value as u32);
        let name = self.name.and_then(|_| {
            let name = before.get(16..)?.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(name).into_owned())
        });
        let fields = &self.fields;
        let span = domain.get(self.span..)?;
        let word = |cpu: usize| number(span, (cpu / 64 * 8, 8)).unwrap_or(0);
        let is_in = |cpu: &usize| word(*cpu) & (1 << (cpu % 64)) != 0;
        let span = (0..self.cpus).filter(is_in).map(|cpu| cpu as u32).collect();
        Some(SchedDomain {
            cpu,
            number: at,
            level: short(fields.level),
            name,
            flags: Some(flags::names(&self.flags, value(fields.flags)?)),
            groups_flags: Some(flags::names(&self.flags, number(before, (8, 4))?)),
            span: Some(span),
            tunables: Some(Tunables {
                min_interval: value(fields.min_interval)?,
                max_interval: value(fields.max_interval)?,
                busy_factor: short(fields.busy_factor)?,
                imbalance_pct: short(fields.imbalance_pct)?,
                cache_nice_tries: short(fields.cache_nice_tries)?,
            }),
            max_newidle_lb_cost: value(fields.max_newidle_lb_cost),
            counters: Vec::new(),
        })
    }
}

/// Reads a number of 4 or 8 bytes in native byte order.
fn number(bytes: &[u8], (offset, size): Field) -> Option<u64> {
    match size {
        4 => NATIVE.u32(bytes, offset).map(u64::from),
        _ => NATIVE.u64(bytes, offset),
    }
}
