//! The required subset of bpf(2): a map with one value, a program, and a run of the program.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::BpfError;
use super::program::Instruction;

/// Size of `union bpf_attr` in bytes, as large as any of these commands reads. The kernel
/// accepts a larger union than its own if the rest is zero.
const ATTRIBUTES: usize = 128;
/// Size of the verifier's log in bytes: some lines for each instruction up to the rejected one.
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

    /// Returns a value stored by the kernel.
    fn get_u32(&self, offset: usize) -> u32 {
        let bytes = self.0.get(offset..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(target) = self.0.get_mut(offset..offset + bytes.len()) {
            target.copy_from_slice(bytes);
        }
    }

    /// # Safety
    /// Addresses in the attributes must be valid for what the command reads and writes there.
    unsafe fn call(&mut self, command: Command) -> io::Result<i32> {
        // SAFETY: the attributes have the given length; the caller guarantees the rest.
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

/// Converts the error of a failed command.
fn failed(command: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |cause| match cause.raw_os_error() {
        Some(libc::EPERM) => BpfError::Permission { command, cause },
        Some(libc::ENOSYS) => BpfError::NoBpf,
        _ => BpfError::Call { command, cause },
    }
}

/// # Safety
/// The descriptor must be open, and must have no other owner.
unsafe fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: guaranteed by the caller.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Array map with one value.
pub(super) struct Map {
    descriptor: OwnedFd,
    size: usize,
}

impl Map {
    /// Creates a map with a value of `size` bytes, all zero.
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
            // SAFETY: the kernel has just created the descriptor.
            descriptor: unsafe { owned(descriptor) },
            size,
        })
    }

    pub(super) fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// Returns a copy of the value.
    pub(super) fn value(&self) -> Result<Vec<u8>, BpfError> {
        // The kernel copies values in multiples of 8 bytes.
        let mut value = vec![0_u8; self.size.next_multiple_of(8)];
        let key = 0_u32;
        let mut attributes = Attributes::new()
            .u32(0, self.descriptor().cast_unsigned())
            .address(8, &raw const key)
            .address(16, value.as_mut_ptr());
        // SAFETY: the key has four bytes, and the buffer is as large as the map's value.
        unsafe { attributes.call(Command::MapLookup) }.map_err(failed("MAP_LOOKUP_ELEM"))?;
        Ok(value)
    }
}

/// Program accepted by the verifier.
pub(super) struct Program {
    descriptor: OwnedFd,
}

impl Program {
    /// Loads a program into the kernel.
    pub(super) fn load(instructions: &[Instruction]) -> Result<Self, BpfError> {
        const RAW_TRACEPOINT: u32 = 17;
        // Only programs with a GPL-compatible licence may read the kernel's memory; this
        // program may be used under either licence.
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
        // SAFETY: the number of instructions is correct, and the licence is NUL-terminated.
        let loaded = unsafe { attributes(None).call(Command::ProgramLoad) };
        let error = match loaded {
            Ok(descriptor) => {
                return Ok(Self {
                    // SAFETY: the kernel has just created the descriptor.
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
        // Load again to get the reason. A log that is too short also causes an error.
        let mut log = vec![0_u8; LOG];
        // SAFETY: as above, and the log has the given length.
        let _ = unsafe { attributes(Some(&mut log)).call(Command::ProgramLoad) };
        let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
        let refused = BpfError::of_log(&String::from_utf8_lossy(text));
        Err(refused.unwrap_or_else(|| failed("PROG_LOAD")(error)))
    }

    /// Runs the program once, synchronously, and returns its result.
    pub(super) fn run(&self, arguments: [u64; 2]) -> Result<u32, BpfError> {
        let mut attributes = Attributes::new()
            .u32(0, self.descriptor.as_raw_fd().cast_unsigned())
            .u32(40, size_of_val(&arguments) as u32)
            .address(48, arguments.as_ptr());
        // SAFETY: the arguments have the given length.
        unsafe { attributes.call(Command::ProgramRun) }.map_err(failed("PROG_TEST_RUN"))?;
        Ok(attributes.get_u32(4))
    }
}
