//! What small requests cost with the library in front of them.

mod common;

use common::{Program, run};

/// Prints a table: `cargo test -p bigiron-preload --test small -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, for whoever wants to see it"]
fn small_requests_with_and_without() {
    if let Some(program) = Program::compile("small") {
        let output = run(&mut program.preloaded(&[], ""));
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}");
        assert!(output.status.success() && text.contains("with a library in front"));
    }
}
