//! `bigiron-bench bars`: draws a result as bars.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use bigiron_svg::{Bar, Bars};
use clap::Args;
use serde::Deserialize;

/// `bigiron-bench bars`.
#[derive(Debug, Args)]
pub struct BarsArguments {
    /// JSON whose member `picture` describes the bars, as `vmtest/service-first measure` writes it
    result: PathBuf,
    /// The SVG to write
    output: PathBuf,
}

#[derive(Deserialize)]
struct Document {
    picture: Picture,
}

#[derive(Deserialize)]
struct Picture {
    title: String,
    subtitle: String,
    parts: Vec<String>,
    bars: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    values: Vec<f64>,
}

/// Writes the picture.
pub fn run(arguments: &BarsArguments) -> anyhow::Result<()> {
    let name = arguments.result.display();
    let text =
        fs::read_to_string(&arguments.result).with_context(|| format!("{name}: cannot read it"))?;
    let document: Document = serde_json::from_str(&text)
        .with_context(|| format!("{name}: is no result with a picture"))?;
    let picture = document.picture;
    let bar = |row: Row| Bar {
        name: row.name,
        values: row.values,
    };
    let bars = Bars {
        title: picture.title,
        subtitle: picture.subtitle,
        parts: picture.parts,
        bars: picture.bars.into_iter().map(bar).collect(),
    };
    fs::write(&arguments.output, bars.svg())
        .with_context(|| format!("{}: cannot write it", arguments.output.display()))
}
