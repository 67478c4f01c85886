//! An opened dump.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bigiron_format::bytes::Endian;
use bigiron_format::image::MemoryMap;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PageFrame, PhysAddr, VirtAddr};
use bigiron_helpers::{Stop, within};
use bigiron_inspect::page_class::kind_bits;
use bigiron_inspect::program::Names;
use bigiron_inspect::{
    BlockQueue, Diagnosis, InspectError, Interrupts, Limits, Located, Location, MemoryUse, Mounts,
    Network, Overview, PageClasses, Program, Slabs, Space, System, Tasks, UserProcess, Waits,
    WorkQueues, run_queues,
};
use bigiron_kernel::printk::Log;
use bigiron_kernel::source::DumpFile;
use bigiron_kernel::{Identities, IoMethod, Kernel, PhysicalMemory, SECTION_FRAMES, Source};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::Serialize;

use crate::convert::to_python;
use crate::errors::{self, Error, FaultError};
use crate::memory_limit::DumpMemory;
use crate::pages::Pages;

self_cell::self_cell!(
    /// A kernel, and the source that it is read from.
    struct Opened {
        owner: Source,
        #[not_covariant]
        dependent: Kernel,
    }
);

/// A symbol: name, address, kind, offset of the address from it, module.
type FoundSymbol = (String, u64, char, u64, Option<String>);
/// A run of page frames: first frame, count, class, and true if they are in the dump.
type ClassRun = (u64, u64, &'static str, bool);
/// A log record: seconds, level, facility, caller, text.
type LogRecord = (Option<f64>, Option<u8>, Option<u8>, Option<String>, String);

/// A dump and the kernel in it. Any number of threads may use it concurrently.
#[pyclass(frozen)]
pub struct Dump {
    opened: Opened,
    names: OnceLock<Arc<Names>>,
    classes: OnceLock<PageClasses>,
    _memory: DumpMemory,
}

impl Dump {
    /// Returns the result of `find` in Python's types.
    fn told<'py, T: Serialize + Send>(
        &self,
        py: Python<'py>,
        find: impl FnOnce(&Program) -> Result<T, InspectError> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.with_program(py, |program| find(program).map_err(errors::of_inspect))?;
        to_python(py, &found)
    }

    fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&Kernel) -> R + Send) -> R {
        py.detach(|| self.opened.with_dependent(|_, kernel| work(kernel)))
    }

    fn with_program<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Program) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        self.with_symbols(py, |program| {
            program.has_types().map_err(errors::of_inspect)?;
            work(program)
        })
    }

    /// Passes a program to `work` that may have no types.
    fn with_symbols<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Program) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        self.with(py, |kernel| {
            let program = match self.names.get() {
                Some(names) => Program::with(kernel, Arc::clone(names)),
                None => {
                    let program = Program::open_symbols(kernel).map_err(errors::of_inspect)?;
                    let names = self.names.get_or_init(|| Arc::clone(program.names()));
                    Program::with(kernel, Arc::clone(names))
                }
            };
            work(&program)
        })
    }
}

/// Opens a raw image of memory; `map` is the text of its memory map, or `flat`.
fn open_image(paths: &[PathBuf], map: &str) -> PyResult<Source> {
    let [path] = paths else {
        return Err(Error::new_err("a raw image of memory is one file"));
    };
    let map = match map {
        "flat" => None,
        text => Some(
            MemoryMap::parse(text.as_bytes())
                .map_err(|error| Error::new_err(format!("memory_map: {error}")))?,
        ),
    };
    let file = DumpFile::open(path).map_err(errors::of_source)?;
    Source::from_image(file, map.as_ref()).map_err(errors::of_source)
}

#[pymethods]
impl Dump {
    #[new]
    #[pyo3(signature = (paths, vmcoreinfo, memory_map, identity, cache))]
    fn open(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        vmcoreinfo: Option<Vec<u8>>,
        memory_map: Option<&str>,
        identity: Option<PathBuf>,
        cache: u64,
    ) -> PyResult<Self> {
        py.detach(|| {
            let mut memory = DumpMemory::new(cache);
            let identities = identity.as_deref().map(Identities::from_file).transpose();
            let identities = identities
                .map_err(|error| Error::new_err(error.to_string()))?
                .unwrap_or_default();
            let mut source = match memory_map {
                Some(map) => open_image(&paths, map)?,
                None => Source::open_with(&paths, &identities).map_err(errors::of_source)?,
            };
            source.set_cache(cache);
            memory.add_readers(&source);
            let given = vmcoreinfo
                .map(|text| Vmcoreinfo::parse(&text, 0))
                .transpose();
            let given = given.map_err(|error| Error::new_err(error.to_string()))?;
            let pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
            let opened = Opened::try_new(source, |source| {
                Kernel::find(source, given, IoMethod::Auto, pages)
            });
            Ok(Self {
                opened: opened.map_err(errors::of_kernel)?,
                names: OnceLock::new(),
                classes: OnceLock::new(),
                _memory: memory,
            })
        })
    }

    /// Returns the output of `bigiron info --json`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let overview = self.with(py, Overview::of);
        to_python(py, &overview)
    }

    /// Returns the lines of VMCOREINFO.
    fn vmcoreinfo<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let lines = PyDict::new(py);
        self.opened.with_dependent(|_, kernel| {
            let text = kernel.info().text();
            for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
                lines.set_item(key, value)?;
            }
            Ok(lines)
        })
    }

    /// Returns the VMCOREINFO text.
    fn vmcoreinfo_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let text = |kernel: &Kernel| PyBytes::new(py, kernel.info().text().as_bytes());
        self.opened.with_dependent(|_, kernel| text(kernel))
    }

    /// Returns log2 of the page size.
    fn page_shift(&self) -> u32 {
        self.opened
            .with_dependent(|_, kernel| kernel.source().page_shift())
    }

    /// Returns the page frame after the last one.
    fn end_frame(&self) -> u64 {
        self.opened
            .with_dependent(|_, kernel| kernel.source().end_frame().0)
    }

    /// Returns the architecture, as in `uname -m`.
    fn machine(&self) -> String {
        self.opened
            .with_dependent(|_, kernel| kernel.source().machine().to_owned())
    }

    /// Returns the byte order of the machine.
    fn byte_order(&self) -> &'static str {
        let endian = self
            .opened
            .with_dependent(|_, kernel| kernel.source().endian());
        match endian {
            Endian::Little => "little",
            Endian::Big => "big",
        }
    }

    /// Returns the bytes at a virtual or physical address.
    fn read<'py>(
        &self,
        py: Python<'py>,
        address: u64,
        size: usize,
        physical: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let all = self.end_frame().saturating_mul(1 << self.page_shift());
        if size as u64 > all {
            let text = format!("{size} bytes exceed the machine's memory");
            return Err(FaultError::new_err(text));
        }
        PyBytes::new_with(py, size, |buf| {
            self.with(py, |kernel| match physical {
                true => kernel
                    .memory()
                    .read(PhysAddr(address), buf)
                    .map_err(errors::of_source),
                false => kernel
                    .read("the requested memory", VirtAddr(address), buf)
                    .map_err(errors::of_kernel),
            })
        })
    }

    /// Returns a page frame and up to `most` - 1 following ones that are available without
    /// another read.
    fn pages(&self, py: Python<'_>, frame: u64, most: usize) -> PyResult<Pages> {
        let pages = self.with(py, |kernel| kernel.memory().pages(PageFrame(frame), most));
        pages.map(Pages::new).map_err(errors::of_source)
    }

    /// Returns the physical address of a virtual one; `None` if it is not mapped.
    fn translate(&self, py: Python<'_>, address: u64) -> PyResult<Option<u64>> {
        let leaf = self.with(py, |kernel| kernel.translate(VirtAddr(address)));
        let leaf = leaf.map_err(errors::of_source)?;
        Ok(leaf.map(|leaf| leaf.physical.0))
    }

    /// Returns all symbols with a name: the kernel's own, then those of modules.
    fn symbols_named(&self, py: Python<'_>, name: &str) -> PyResult<Vec<FoundSymbol>> {
        self.with_symbols(py, |program| {
            let named = program.symbols_named(name);
            Ok(named.iter().map(found).collect())
        })
    }

    /// Returns the nearest symbol at or below an address.
    fn symbol_at(&self, py: Python<'_>, address: u64) -> PyResult<Option<FoundSymbol>> {
        self.with_symbols(py, |program| {
            let at = program.symbol_at(VirtAddr(address));
            Ok(at.as_ref().map(found))
        })
    }

    /// Returns all symbols of the kernel itself.
    fn symbols(&self, py: Python<'_>) -> PyResult<Vec<FoundSymbol>> {
        self.with_symbols(py, |program| {
            let own = |symbol| Located {
                symbol,
                offset: 0,
                module: None,
                size: None,
            };
            Ok(program
                .symbols()
                .iter()
                .map(|symbol| found(&own(symbol)))
                .collect())
        })
    }

    /// Returns the output of `bigiron type --json`; `None` if the type does not exist.
    fn definition<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.with_program(py, |program| {
            let defined = program.define(name).map_err(errors::of_inspect)?;
            Ok(defined.map(|(definition, _)| definition))
        })?;
        found.map(|found| to_python(py, &found)).transpose()
    }

    /// Returns the output of `bigiron read --json` for a location: address, type, value.
    fn value<'py>(
        &self,
        py: Python<'py>,
        place: &str,
        written: Option<&str>,
        cpu: Option<usize>,
        depth: usize,
    ) -> PyResult<(u64, Option<String>, Option<Bound<'py, PyAny>>)> {
        let (address, name, value) = self.with_program(py, |program| {
            let location = Location::resolve(program, place, written, cpu, Space::Virtual);
            let location = location.map_err(errors::of_inspect)?;
            let limits = Limits {
                depth,
                ..Limits::default()
            };
            let value = location.value(program, limits);
            Ok((location.address.0, location.type_name(), value))
        })?;
        let value = value.map(|value| to_python(py, &value)).transpose()?;
        Ok((address, name, value))
    }

    /// Returns all tasks.
    fn tasks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, Tasks::of)
    }

    /// Returns the modules.
    fn modules<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let modules = self.with_program(py, |program| {
            serde_json::to_value(program.modules())
                .map_err(|error| Error::new_err(error.to_string()))
        })?;
        to_python(py, &modules)
    }

    /// Returns the slab caches.
    fn slab_caches<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, Slabs::of)
    }

    /// Returns the kernel's memory statistics, by use.
    fn memory_use<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, MemoryUse::of)
    }

    /// Returns the output of `bigiron diagnose --json`; ends after so many seconds.
    fn diagnose<'py>(&self, py: Python<'py>, seconds: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let limit = seconds.map(Duration::try_from_secs_f64).transpose();
        let limit = limit.map_err(|error| Error::new_err(format!("timeout: {error}")))?;
        let found = self.with_program(py, |program| {
            Ok(within(limit, |stop| Diagnosis::of(program, stop)))
        })?;
        to_python(py, &found.told())
    }

    /// Returns who waits for whom.
    fn waits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, |program| Waits::of(program, &Stop::new()))
    }

    /// Returns the system in lines.
    fn system<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, |program| Ok(System::of(program)))
    }

    /// Returns the block devices and the requests that they have not answered.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, |program| BlockQueue::all(program, &Stop::new()))
    }

    /// Returns the run queues.
    fn run_queues<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, run_queues)
    }

    /// Returns the work queues.
    fn work_queues<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, WorkQueues::of)
    }

    /// Returns the mounts.
    fn mounts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, Mounts::of)
    }

    /// Returns the network devices.
    fn network<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, Network::of)
    }

    /// Returns the interrupts.
    fn interrupts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, Interrupts::of)
    }

    /// Returns a process: its mappings, and the registers and stacks of its threads.
    fn process<'py>(&self, py: Python<'py>, pid: i32) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, |program| UserProcess::of(program, pid))
    }

    /// Returns the first page frame of each section that has RAM.
    fn chunks(&self) -> Vec<u64> {
        self.opened.with_dependent(|_, kernel| {
            let chunks = kernel.source().sections();
            chunks.map(|first| first.0).collect()
        })
    }

    /// Returns the page frames of a section as runs.
    fn classes(&self, py: Python<'_>, chunk: u64) -> PyResult<Vec<ClassRun>> {
        self.with_program(py, |program| {
            let kernel = program.kernel();
            let classes = match self.classes.get() {
                Some(classes) => classes,
                None => {
                    let bits = kind_bits(program).map_err(errors::of_inspect)?;
                    let found = PageClasses::of(kernel, bits).map_err(errors::of_inspect)?;
                    self.classes.get_or_init(|| found)
                }
            };
            let first = PageFrame(chunk / SECTION_FRAMES * SECTION_FRAMES);
            let runs = classes.chunk(kernel, first, IoMethod::Auto);
            let runs = runs.map_err(errors::of_inspect)?.into_iter();
            Ok(runs
                .map(|run| (run.frame, run.count, run.class, run.in_dump))
                .collect())
        })
    }

    /// Returns the kernel log, and descriptions of its errors.
    fn log(&self, py: Python<'_>, since_clear: bool) -> PyResult<(Vec<LogRecord>, Vec<String>)> {
        self.with(py, |kernel| {
            let log = Log::open(kernel).map_err(errors::of_kernel)?;
            let mut records = Vec::new();
            let summary = log.for_each(since_clear, &mut |record| {
                records.push((
                    record.ts_nsec.map(|ts| ts as f64 / 1e9),
                    record.level,
                    record.facility,
                    record.caller.map(|caller| caller.to_string()),
                    String::from_utf8_lossy(record.text.bytes()).into_owned(),
                ));
                Ok(())
            });
            let summary = summary.map_err(errors::of_log)?;
            Ok((records, summary.warnings()))
        })
    }
}

fn found(located: &Located<'_>) -> FoundSymbol {
    let Located {
        symbol,
        offset,
        module,
        ..
    } = located;
    (
        symbol.name.to_owned(),
        symbol.address.0,
        symbol.kind,
        *offset,
        module.map(str::to_owned),
    )
}
