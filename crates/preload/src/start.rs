//! Reads the policy before the program begins.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::time::Duration;

use bigiron_memory::policy::{Policy, Trace, VARIABLE};
use bigiron_memory::reaper::PROGRAM_VARIABLE;

use crate::state::{self, STATE};
use crate::{end, sanitizer, stack, trace};

/// The environment variable with the path of a policy file. Assignments in [`VARIABLE`] override it.
const FILE_VARIABLE: &str = "BIGIRON_MEM_POLICY";

/// The environment variable with the seconds that the end of a process waits for its threads to
/// halt. For tests, which must not depend on how busy the machine is.
const HALT_VARIABLE: &str = "BIGIRON_MEM_TEST_HALT_SECONDS";

/// The start of the file name that Valgrind adds to LD_PRELOAD.
const EMULATOR: &[u8] = b"/vgpreload_";

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

/// Called by the C library with the program's arguments and environment.
extern "C" fn start(
    _count: c_int,
    _arguments: *const *const c_char,
    environment: *const *const c_char,
) {
    // As for secure_getenv(3): a program that has more rights than its user does not obey the
    // user's environment. It would append to any file and start any program.
    let environment = match has_more_rights_than_its_user() {
        true => ptr::null(),
        false => environment,
    };
    // SAFETY: null, or the C library's environment, before the program could change it.
    let look = |name| unsafe { variable(environment, name) };
    let mut policy = Policy::default();
    let read = read_policy(&mut policy, look(FILE_VARIABLE), look(VARIABLE));
    if let Err(error) = read {
        eprintln!("bigiron mem: {error}; nothing is accelerated");
        return;
    }
    // Valgrind does not support threads without a C library, and keeps its own memory in this process.
    let emulated = look("LD_PRELOAD").is_some_and(|libraries| {
        let mut words = libraries.to_bytes().windows(EMULATOR.len());
        words.any(|word| word == EMULATOR)
    });
    if !policy.enabled || emulated || sanitizer::watches_races() {
        return;
    }
    if let Some(program) =
        look(PROGRAM_VARIABLE).filter(|path| path.to_bytes().first() == Some(&b'/'))
    {
        // The program may change its environment.
        STATE.set_program(Box::leak(program.to_owned().into_boxed_c_str()));
    }
    let seconds = look(HALT_VARIABLE).and_then(|text| text.to_str().ok()?.parse().ok());
    if let Some(seconds) = seconds {
        STATE.set_time_to_halt(Duration::from_secs(seconds));
    }
    if policy.trace != Trace::No {
        trace::prepare();
    }
    bigiron_memory::engine::prepare();
    stack::prepare();
    end::prepare();
    state::set_policy(policy);
}

/// Returns true in a set-user-ID or set-group-ID program, one with file capabilities, or where a
/// security module says so. Such a program has the library only if it is linked with it or
/// /etc/ld.so.preload names it.
fn has_more_rights_than_its_user() -> bool {
    // SAFETY: reads a value that the kernel passed to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the value of a variable; `None` if it is unset or empty.
///
/// # Safety
/// `environment` is null or ends with a null, and its strings are never freed.
unsafe fn variable(environment: *const *const c_char, name: &str) -> Option<&'static CStr> {
    if environment.is_null() {
        return None;
    }
    (0..)
        // SAFETY: as the caller promises; it ends at the null.
        .map_while(|at| unsafe {
            let entry = *environment.add(at);
            (!entry.is_null()).then(|| CStr::from_ptr(entry))
        })
        .find_map(|entry| {
            let value = entry.to_bytes_with_nul().strip_prefix(name.as_bytes())?;
            CStr::from_bytes_with_nul(value.strip_prefix(b"=")?).ok()
        })
        .filter(|value| !value.is_empty())
}

fn read_policy(
    policy: &mut Policy,
    file: Option<&CStr>,
    line: Option<&CStr>,
) -> Result<(), String> {
    if let Some(file) = file {
        let path = OsStr::from_bytes(file.to_bytes());
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{FILE_VARIABLE}: {name}: {error}"))?;
        let changed = policy.change(&text);
        changed.map_err(|wrong| format!("{FILE_VARIABLE}: {name}: {wrong}"))?;
    }
    if let Some(line) = line {
        let text = line
            .to_str()
            .map_err(|_| format!("{VARIABLE}: expected key=value, in UTF-8"))?;
        let changed = policy.change(text);
        changed.map_err(|wrong| format!("{VARIABLE}: {wrong}"))?;
    }
    Ok(())
}
