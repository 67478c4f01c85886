//! Words for people, on standard error.

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
