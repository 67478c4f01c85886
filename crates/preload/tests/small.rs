//! The cost of small requests with the library.

mod common;

use common::{Program, run};

/// Prints a table: `cargo test -p bigiron-preload --test small -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, run on request"]
fn small_requests_with_and_without() {
    if let Some(program) = Program::compile("small") {
        let output = run(&mut program.preloaded(&[], ""));
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}");
        assert!(output.status.success() && text.contains("with a library in front"));
    }
}
