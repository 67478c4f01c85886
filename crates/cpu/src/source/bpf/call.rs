//! bpf(2), as far as it is needed: a map of one value, a program, a run of it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::BpfError;
use super::program::Instruction;

/// Bytes of `union bpf_attr` that any of these commands reads; the kernel takes what is longer
/// than it knows if the rest is zero.
const ATTRIBUTES: usize = 128;
/// Bytes of the verifier's log: some lines for each instruction up to the one that it does not take.
const LOG: usize = 1 << 20;

#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapLookup = 1,
    ProgramLoad = 5,
    ProgramRun = 10,
}

/// The arguments of a command: `union bpf_attr` of include/uapi/linux/bpf.h.
#[repr(C, align(8))]
struct Attributes([u8; ATTRIBUTES]);

impl Attributes {
    fn new() -> Self {
        Self([0; ATTRIBUTES])
    }

    fn u32(mut self, offset: usize, value: u32) -> Self {
        self.put(offset, &value.to_ne_bytes());
        self
    }

    fn u64(mut self, offset: usize, value: u64) -> Self {
        self.put(offset, &value.to_ne_bytes());
        self
    }

    fn address<T: ?Sized>(self, offset: usize, value: *const T) -> Self {
        self.u64(offset, value.cast::<u8>().expose_provenance() as u64)
    }

    /// What the kernel left there.
    fn get_u32(&self, offset: usize) -> u32 {
        let bytes = self.0.get(offset..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// # Safety
    /// Addresses among the attributes must point to what the command reads and writes there.
    unsafe fn call(&mut self, command: Command) -> io::Result<i32> {
        // SAFETY: the attributes are as long as is said; the rest is the caller's promise.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command as libc::c_int,
                self.0.as_mut_ptr(),
                ATTRIBUTES,
            )
        };
        match i32::try_from(result) {
            Ok(result) if result >= 0 => Ok(result),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// What became of a command that failed.
fn failed(command: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |source| match source.raw_os_error() {
        Some(libc::EPERM) => BpfError::Permission { command, source },
        Some(libc::ENOSYS) => BpfError::NoBpf,
        _ => BpfError::Call { command, source },
    }
}

/// # Safety
/// The number must be that of a descriptor which nobody else owns.
unsafe fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// An array of one value.
pub(super) struct Map {
    descriptor: OwnedFd,
    size: usize,
}

impl Map {
    /// With a value of `size` bytes, all zero.
    pub(super) fn new(size: usize) -> Result<Self, BpfError> {
        const ARRAY: u32 = 2;
        let mut attributes = Attributes::new()
            .u32(0, ARRAY)
            .u32(4, size_of::<u32>() as u32)
            .u32(8, size as u32)
            .u32(12, 1);
        // SAFETY: the command has no addresses.
        let descriptor = unsafe { attributes.call(Command::MapCreate) };
        let descriptor = descriptor.map_err(failed("MAP_CREATE"))?;
        Ok(Self {
            // SAFETY: the kernel has just made it.
            descriptor: unsafe { owned(descriptor) },
            size,
        })
    }

    pub(super) fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// A copy of the value.
    pub(super) fn value(&self) -> Result<Vec<u8>, BpfError> {
        // Values are copied in multiples of 8 bytes.
        let mut value = vec![0_u8; self.size.next_multiple_of(8)];
        let key = 0_u32;
        let mut attributes = Attributes::new()
            .u32(0, self.descriptor().cast_unsigned())
            .address(8, &raw const key)
            .address(16, value.as_mut_ptr());
        // SAFETY: the key has four bytes, the value as many as the map's.
        unsafe { attributes.call(Command::MapLookup) }.map_err(failed("MAP_LOOKUP_ELEM"))?;
        Ok(value)
    }
}

/// A program that the verifier has accepted.
pub(super) struct Program {
    descriptor: OwnedFd,
}

impl Program {
    /// Gives the kernel a program.
    pub(super) fn load(instructions: &[Instruction]) -> Result<Self, BpfError> {
        const RAW_TRACEPOINT: u32 = 17;
        // The kernel lets only those programs read its memory whose licence goes with the GPL: this
        // program may be used under either.
        const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";
        let attributes = |log: Option<&mut Vec<u8>>| {
            let attributes = Attributes::new()
                .u32(0, RAW_TRACEPOINT)
                .u32(4, instructions.len() as u32)
                .address(8, instructions.as_ptr())
                .address(16, LICENCE.as_ptr());
            match log {
                Some(log) => attributes
                    .u32(24, 1)
                    .u32(28, log.len() as u32)
                    .address(32, log.as_mut_ptr()),
                None => attributes,
            }
        };
        // SAFETY: as many instructions as is said, and a string with its end.
        let loaded = unsafe { attributes(None).call(Command::ProgramLoad) };
        let error = match loaded {
            Ok(descriptor) => {
                return Ok(Self {
                    // SAFETY: the kernel has just made it.
                    descriptor: unsafe { owned(descriptor) },
                });
            }
            Err(error) => error,
        };
        if !matches!(
            error.raw_os_error(),
            Some(libc::EACCES | libc::EINVAL | libc::ENOENT)
        ) {
            return Err(failed("PROG_LOAD")(error));
        }
        // Once more, for the reason. A log that is too short is an error too.
        let mut log = vec![0_u8; LOG];
        // SAFETY: as above, and a log as long as is said.
        let _ = unsafe { attributes(Some(&mut log)).call(Command::ProgramLoad) };
        let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
        let refused = BpfError::of_log(&String::from_utf8_lossy(text));
        Err(refused.unwrap_or_else(|| failed("PROG_LOAD")(error)))
    }

    /// Runs it once, here and now; what it returns.
    pub(super) fn run(&self, arguments: [u64; 2]) -> Result<u32, BpfError> {
        let mut attributes = Attributes::new()
            .u32(0, self.descriptor.as_raw_fd().cast_unsigned())
            .u32(40, size_of_val(&arguments) as u32)
            .address(48, arguments.as_ptr());
        // SAFETY: the arguments are as long as is said.
        unsafe { attributes.call(Command::ProgramRun) }.map_err(failed("PROG_TEST_RUN"))?;
        Ok(attributes.get_u32(4))
    }
}
