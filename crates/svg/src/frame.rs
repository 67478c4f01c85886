//! What every picture begins with.

use std::fmt::{self, Write as _};

use crate::escape;
use crate::style::STYLE;

/// Width of every picture.
pub const WIDTH: f64 = 1000.0;

/// Begins a picture: its size, its styles, its heading at `left`, and the lines below that.
pub fn begin(out: &mut String, height: f64, left: f64, title: &str, subtitle: &str) -> fmt::Result {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{left}\" y=\"36\">{0}</text>",
        escape(title),
    )?;
    for (number, line) in subtitle.lines().enumerate() {
        let y = 60.0 + 18.0 * number as f64;
        let line = escape(line);
        writeln!(
            out,
            "<text class=\"soft\" x=\"{left}\" y=\"{y}\">{line}</text>"
        )?;
    }
    Ok(())
}
