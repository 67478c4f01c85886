//! Messages on standard error, and results on standard output.

/// Prints a line on standard error and ignores errors: a dump must not end because the console
/// or a log's pipe is gone, as it would with `eprintln!`.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}

pub(crate) use tell;

/// Prints a result on standard output.
#[cfg(feature = "inspect")]
pub fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if !is_closed_pipe(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns true if the reader of a pipe closed it, which is not a failure.
pub fn is_closed_pipe(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}
