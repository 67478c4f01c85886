//! Measures every codec on one core over the non-zero pages of a file. Where we
//! have an encoder of our own, its library follows in a row of its own.
//!
//! `cargo run --release -p bigiron-format --example codec_speed FILE [BLOCK_SIZE [COMPRESSION]...]`

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use bigiron_format::codec::{Codec, Compression, Compressor, decompressor};

/// The least of this many runs is printed.
const RUNS: u32 = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which file?")?;
    let size: usize = args.next().map_or(Ok(4096), |size| size.parse())?;
    let mut compressions = Vec::new();
    for arg in args {
        compressions.push(arg.parse()?);
    }
    if compressions.is_empty() {
        compressions.extend(Codec::ALL.map(Compression::new));
    }

    let file = std::fs::read(path)?;
    let blocks: Vec<&[u8]> = file
        .chunks_exact(size)
        .filter(|block| block.iter().any(|&byte| byte != 0))
        .collect();
    println!("{} non-zero blocks of {size} bytes", blocks.len());
    println!("codec      compress ns/block  decompress ns/block    ratio    MB/s  context KiB");
    for compression in compressions {
        let name = compression.to_string();
        let context = format!("{}", compression.context_bytes() >> 10);
        let own = compression.compressor()?;
        measure(&name, compression.codec, own, &blocks, size, &context)?;
        if let Some(library) = compression.library_compressor()? {
            measure("  library", compression.codec, library, &blocks, size, "")?;
        }
    }
    Ok(())
}

fn measure(
    name: &str,
    codec: Codec,
    mut compressor: Box<dyn Compressor>,
    blocks: &[&[u8]],
    size: usize,
    context: &str,
) -> Result<(), Box<dyn Error>> {
    let mut decompressor = decompressor(codec)?;
    // One byte less than a block: what does not get shorter is stored.
    let mut out = vec![0; size - 1];
    let mut back = vec![0; size];

    let mut total = 0;
    let compressing = best(|| {
        total = 0;
        for block in blocks {
            total += match compressor.compress(black_box(block), &mut out) {
                Some(len) => len,
                None => size,
            };
        }
        Ok(())
    })?;

    let mut stored = Vec::new();
    let mut room = vec![0; 2 * size];
    for block in blocks {
        let len = compressor.compress(block, &mut room).ok_or("no room")?;
        stored.push(room[..len].to_vec());
    }
    for (block, data) in blocks.iter().zip(&stored) {
        let len = decompressor.decompress(data, &mut back)?;
        if &back[..len] != *block {
            return Err(format!("{name}: a block came back changed").into());
        }
    }
    let decompressing = best(|| {
        for data in &stored {
            decompressor.decompress(black_box(data), &mut back)?;
        }
        Ok(())
    })?;

    let count = blocks.len() as f64;
    let bytes = count * size as f64;
    println!(
        "{name:10} {:17.0} {:20.0} {:8.4} {:7.0} {context:>12}",
        compressing.as_nanos() as f64 / count,
        decompressing.as_nanos() as f64 / count,
        total as f64 / bytes,
        bytes / 1e6 / compressing.as_secs_f64(),
    );
    Ok(())
}

fn best(mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}
