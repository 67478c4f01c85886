//! Words for people on standard error, and what they asked for on standard output.

/// Prints a line on standard error, and goes on where that cannot be: a dump
/// must not end because the console or a log's pipe is gone, as it would with
/// `eprintln!`.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}

pub(crate) use tell;

/// Prints what was asked for on standard output.
#[cfg(feature = "inspect")]
pub fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if !is_closed_pipe(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether writing ended because whoever closed the pipe has seen enough, which
/// is no failure.
pub fn is_closed_pipe(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}
