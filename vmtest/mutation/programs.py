"""The project's programs, built where they are not given, and the shipped vmcore."""

import os
from pathlib import Path

from lab import tools

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def _build(given: Path | None, name: str, *words: str) -> Path:
    if given is None:
        build = ["cargo", "build", "--locked", "--quiet", "--profile", "unit", "--workspace"]
        tools.run([*build, *words], timeout=3600, cwd=ROOT)
    return (given or TARGET / "unit" / name).resolve()


def bigiron(given: Path | None) -> Path:
    """Returns the program at `given`, or one that is built now."""
    return _build(given, "bigiron", "--lib", "--bin", "bigiron")


def synth_core(given: Path | None) -> Path:
    """Returns the example of crates/synth at `given`, or one that is built now."""
    return _build(given, "examples/synth_core", "--example", "synth_core")


def sample() -> Path:
    """Returns the shipped vmcore, unpacked."""
    path = TARGET / "sample" / "linux-6.1-5level.elf"
    if not path.exists():
        tools.need("zstd")
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = ROOT / "samples" / "linux-6.1-5level.elf.zst"
        tools.run(["zstd", "-q", "-d", "-f", "--sparse", packed, "-o", path])
    return path
