//! The modules of a kernel: the list `modules` of struct module
//! (include/linux/module.h), as it was when the kernel stopped.
//!
//! | fact | members | kernels |
//! |---|---|---|
//! | memory | `mem[]` | since 6.4 (ac3b43283923) |
//! | | `core_layout`, `init_layout` | 4.5 to 6.3 (7523e4dc5057) |
//! | | `module_core`, `module_init` | earlier |
//! | symbols | `kallsyms` | since 4.5 (8244062ef1e5) |
//! | | `symtab`, `strtab` | earlier |
//! | references | `refcnt`, one more than the number | since 3.19 (2f35c41f58a9) |
//! | | `refptr`, per CPU | earlier |

mod build_id;
mod list;
mod lookup;
mod structure;
mod symbols;
mod types;

use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{Named, Shape, TypeTable};

use crate::error::InspectError;
use crate::program::Program;

use list::MAX_MODULES;
pub use list::{Module, Modules, Region};
pub use lookup::Located;
pub(crate) use structure::Structure;

/// Maximum number of elements of `mem[]`; seven since 6.4.
const MAX_REGIONS: u64 = 32;
/// Maximum memory for the symbols and types of all modules, in bytes.
const NAME_BYTES: usize = 256 << 20;
/// Taint letters by bit (taint_flags in kernel/panic.c).
const TAINTS: &[u8] = b"PFSRMBUDAWCIOELKXTNJ";

impl Program<'_, '_> {
    /// Its modules, read on first use.
    pub fn modules(&self) -> &Modules {
        self.names.modules.get_or_init(|| read(self))
    }
}

/// Reads the list; what cannot be read is listed in `missing`.
fn read(program: &Program) -> Modules {
    let mut modules = Modules {
        list: Vec::new(),
        missing: None,
        image: lookup::image(program.symbols()),
        left: AtomicUsize::new(NAME_BYTES),
        by_address: Vec::new(),
        btf_addresses: OnceLock::new(),
    };
    let walk = program
        .symbol("modules")
        .and_then(|head| program.list(head, "module", "list", MAX_MODULES));
    match walk {
        Ok(walk) => {
            modules.missing = walk
                .cut
                .map(|reason| format!("the list of modules is incomplete: {reason}"));
            let all = walk.items.into_iter();
            modules.list = all.map(|at| module(program, at)).collect();
            modules.sort_regions();
        }
        Err(InspectError::NoSymbol { .. }) => {
            modules.missing = Some("the kernel has no symbol modules (CONFIG_MODULES)".into());
        }
        Err(error) => modules.missing = Some(error.to_string()),
    }
    modules
}

fn module(program: &Program, address: VirtAddr) -> Module {
    let mut module = Module {
        name: String::new(),
        address,
        base: VirtAddr(0),
        size: 0,
        state: "unknown".into(),
        references: None,
        used_by: Vec::new(),
        taints: String::new(),
        version: None,
        build_id: None,
        regions: Vec::new(),
        missing: Vec::new(),
        symbols: OnceLock::new(),
        types: OnceLock::new(),
    };
    let found = program.text(address, "module", "name");
    module.name = module.take("name", found).unwrap_or_default();
    let found = state(program, address);
    module.state = module.take("state", found).unwrap_or_default();
    let found = regions(program, address);
    module.regions = module.take("memory", found).unwrap_or_default();
    module.base = module
        .regions
        .first()
        .map_or(VirtAddr(0), |region| region.start);
    module.size = module
        .regions
        .iter()
        .fold(0, |sum, region| region.size.saturating_add(sum));
    let found = references(program, address);
    module.references = module.take("references", found).flatten();
    let found = used_by(program, address);
    module.used_by = module.take("used by", found).unwrap_or_default();
    let found = program.value(address, "module", "taints");
    module.taints = taint_letters(module.take("taints", found).unwrap_or(0));
    let found = version(program, address);
    module.version = module.take("version", found).flatten();
    let found = build_id::read(program, address);
    module.build_id = module.take("build id", found).flatten();
    module
}

fn state(program: &Program, address: VirtAddr) -> Result<String, InspectError> {
    let value = program.value(address, "module", "state")?;
    let member = program.locate("module", "state")?;
    let names = program.types().enumerators(member.type_id)?;
    let found = names
        .iter()
        .find(|(_, known)| known.cast_unsigned() == value);
    Ok(match found {
        Some((name, _)) => name.trim_start_matches("MODULE_STATE_").to_lowercase(),
        None => value.to_string(),
    })
}

fn regions(program: &Program, address: VirtAddr) -> Result<Vec<Region>, InspectError> {
    if program.has("module", "mem") {
        return types_of_memory(program, address);
    }
    let region = |name: &str, start: &str, size: &str| -> Result<Option<Region>, InspectError> {
        if !program.has("module", start) {
            return Ok(None);
        }
        Ok(Some(Region {
            name: name.to_owned(),
            start: program.pointer(address, "module", start)?,
            size: program.value(address, "module", size)?,
        }))
    };
    let all = [
        region("core", "core_layout.base", "core_layout.size")?,
        region("core", "module_core", "core_size")?,
        // CONFIG_ARCH_WANTS_MODULES_DATA_IN_VMALLOC, 5.18 to 6.3 (01dc0386efb7).
        region("data", "data_layout.base", "data_layout.size")?,
        region("init", "init_layout.base", "init_layout.size")?,
        region("init", "module_init", "init_size")?,
    ];
    let all = all.into_iter().flatten();
    Ok(all.filter(|region| region.size > 0).collect())
}

/// Reads `mem[]`, one element per value of enum mod_mem_type.
fn types_of_memory(program: &Program, address: VirtAddr) -> Result<Vec<Region>, InspectError> {
    let each = program.size_of("module_memory")?.max(1);
    let member = program.locate("module", "mem")?;
    let first = program.member(address, "module", "mem")?;
    let count = match program.shape(member.type_id)? {
        Shape::Array(_, count) => count.min(MAX_REGIONS),
        _ => 0,
    };
    let names = match program.types().find(Named::Enumeration, "mod_mem_type")? {
        Some(id) => program.types().enumerators(id)?,
        None => Vec::new(),
    };
    let mut regions = Vec::new();
    for index in 0..count {
        let at = VirtAddr(first.0.wrapping_add(index * each));
        let size = program.value(at, "module_memory", "size")?;
        if size == 0 {
            continue;
        }
        let known = names
            .iter()
            .find(|(_, value)| value.cast_unsigned() == index);
        let name = known.map(|(name, _)| name.trim_start_matches("MOD_").to_lowercase());
        regions.push(Region {
            name: name.unwrap_or_else(|| index.to_string()),
            start: program.pointer(at, "module_memory", "base")?,
            size,
        });
    }
    Ok(regions)
}

fn references(program: &Program, address: VirtAddr) -> Result<Option<i64>, InspectError> {
    if program.has("module", "refcnt.counter") {
        // MODULE_REF_BASE is 1.
        let count = program.signed(address, "module", "refcnt.counter")?;
        return Ok(Some(count.saturating_sub(1)));
    }
    if !program.has("module", "refptr") {
        return Ok(None);
    }
    let counters = program.pointer(address, "module", "refptr")?;
    let mut sum = 0_i64;
    for cpu in 0..program.cpu_count()? {
        let at = program.per_cpu_at(counters, cpu)?;
        let up = program.value(at, "module_ref", "incs")?;
        let down = program.value(at, "module_ref", "decs")?;
        sum = sum.wrapping_add(up.wrapping_sub(down).cast_signed());
    }
    Ok(Some(sum))
}

fn used_by(program: &Program, address: VirtAddr) -> Result<Vec<String>, InspectError> {
    if !program.has("module", "source_list") {
        return Ok(Vec::new());
    }
    let head = program.member(address, "module", "source_list")?;
    let walk = program.list(head, "module_use", "source_list", MAX_MODULES)?;
    let name = |at: &VirtAddr| {
        let user = program.pointer(*at, "module_use", "source")?;
        program.text(user, "module", "name")
    };
    let names: Vec<String> = walk.items.iter().map(name).collect::<Result<_, _>>()?;
    match walk.cut {
        None => Ok(names),
        Some(reason) => Err(InspectError::Damaged {
            what: "the list of a module's users".into(),
            address: head,
            reason,
        }),
    }
}

fn version(program: &Program, address: VirtAddr) -> Result<Option<String>, InspectError> {
    if !program.has("module", "version") {
        return Ok(None);
    }
    match program.pointer(address, "module", "version")? {
        VirtAddr(0) => Ok(None),
        at => program.string(at, 256).map(Some),
    }
}

/// Returns the letters of taint bits.
pub(crate) fn taint_letters(bits: u64) -> String {
    let letter = |bit: usize| char::from(TAINTS.get(bit).copied().unwrap_or(b'?'));
    let set = (0..64).filter(|bit| bits >> bit & 1 != 0);
    set.map(letter).collect()
}
