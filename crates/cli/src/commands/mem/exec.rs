//! A program in this one's place, which finds everything as this one found it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, ptr};

static SIGPIPE_IS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Called by the loader before Rust's own start, which ignores SIGPIPE. The program that comes
/// must find what this one found: systemd ignores it for services, shells do not.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note_sigpipe;

extern "C" fn note_sigpipe() {
    // SAFETY: it asks, and changes nothing; zeros are a valid action.
    let ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    };
    SIGPIPE_IS_IGNORED.store(ignored, Ordering::Relaxed);
}

/// Executes `command` as execvp(3) does, with this process's environment but for `changes`. Signals
/// that are blocked or ignored stay so, which they do not by `Command::exec`. Returns why
/// it could not.
pub fn exec(command: &[OsString], changes: &[(&str, OsString)]) -> io::Error {
    let mut variables: BTreeMap<OsString, OsString> = env::vars_os().collect();
    for (name, value) in changes {
        variables.insert((*name).into(), value.clone());
    }
    let assignments = variables.iter().map(|(name, value)| {
        let mut text = name.clone();
        text.push("=");
        text.push(value);
        text
    });
    let strings = || -> io::Result<(Vec<CString>, Vec<CString>)> {
        let words = command
            .iter()
            .map(|word| string(word))
            .collect::<Result<_, _>>()?;
        let assignments = assignments
            .map(|text| string(&text))
            .collect::<Result<_, _>>()?;
        Ok((words, assignments))
    };
    let (words, assignments) = match strings() {
        Ok(strings) => strings,
        Err(error) => return error,
    };
    let (words, assignments) = (pointers(&words), pointers(&assignments));
    let Some(program) = words.first().filter(|program| !program.is_null()) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let pipe = match SIGPIPE_IS_IGNORED.load(Ordering::Relaxed) {
        true => libc::SIG_IGN,
        false => libc::SIG_DFL,
    };
    // SAFETY: lists of strings that end with NULL, and live until the call fails.
    unsafe {
        libc::signal(libc::SIGPIPE, pipe);
        libc::execvpe(*program, words.as_ptr(), assignments.as_ptr());
    }
    let error = io::Error::last_os_error();
    // SAFETY: as Rust had it, for the message.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}

fn string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::other)
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    let pointers = strings.iter().map(|text| text.as_ptr());
    pointers.chain([ptr::null()]).collect()
}
