//! What is read before the program begins.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bigiron_memory::call::State;
use bigiron_memory::policy::{Policy, Trace, VARIABLE};
use bigiron_memory::reaper::PROGRAM_VARIABLE;

use crate::{end, sanitizer, stack, trace};

/// The environment variable with a policy's file. [`VARIABLE`] changes what stands there.
const FILE_VARIABLE: &str = "BIGIRON_MEM_POLICY";

/// The environment variable with the seconds that the end of a process waits for its threads to
/// halt. For tests, which must not depend on how busy the machine is.
const HALT_VARIABLE: &str = "BIGIRON_MEM_TEST_HALT_SECONDS";

/// What Valgrind puts into LD_PRELOAD.
const EMULATOR: &[u8] = b"/vgpreload_";

/// What the calls remember.
pub(crate) static STATE: State = State::new();

static POLICY: OnceLock<Policy> = OnceLock::new();

/// Bytes below which a call is the plain one: all, until the policy is read.
pub(crate) static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The policy, if anything is to be shared, and here. `None` before it was read: other libraries'
/// constructors and allocators call before this one's.
pub(crate) fn policy() -> Option<&'static Policy> {
    known_policy().filter(|_| stack::has_room())
}

/// The same, also where nothing can be shared: for what is only to be remembered.
pub(crate) fn known_policy() -> Option<&'static Policy> {
    POLICY.get().filter(|policy| policy.enabled)
}

/// Where the policy lies: kept until the end.
pub(crate) fn addresses() -> [usize; 2] {
    [(&raw const POLICY).addr(), (&raw const STATE).addr()]
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

/// The C library calls it with the program's arguments and environment.
extern "C" fn start(
    _count: c_int,
    _arguments: *const *const c_char,
    environment: *const *const c_char,
) {
    // SAFETY: the C library's environment, before the program could change it.
    let look = |name| unsafe { variable(environment, name) };
    let mut policy = Policy::default();
    let read = read_policy(&mut policy, look(FILE_VARIABLE), look(VARIABLE));
    if let Err(error) = read {
        eprintln!("bigiron mem: {error}; nothing is accelerated");
        return;
    }
    // Valgrind does not know threads without a C library, and has memory in this process.
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
    let threshold = policy.settings.straight_below;
    POLICY.get_or_init(|| policy);
    THRESHOLD.store(threshold, Ordering::Release);
}

/// The value of a variable; `None` also where it is empty.
///
/// # Safety
/// `environment` is null, or ends with a null; its strings stay.
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
