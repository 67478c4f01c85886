//! SVG pictures without scripts, fonts or external images.

mod bars;
mod frame;
mod plot;
mod style;
mod tree;

pub use bars::{Bar, Bars};
pub use plot::{Axis, Corner, Plot, Series};
pub use style::{Line, Mark, Style};
pub use tree::{TreeBox, Trees};

/// Escapes text for use in an element or an attribute. A name from a dump may contain any
/// character.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            control if control.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            escape("<a b=\"c\" d='e'>&\u{1b}é"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;?é"
        );
    }
}
