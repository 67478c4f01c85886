"""Packs the vmcore of the recipe `sample` into samples/, which ships with the sources."""

import shutil
from pathlib import Path

from . import make, tools
from .recipes import RECIPES

SAMPLES = Path(__file__).resolve().parent.parent.parent / "samples"
NAME = "linux-6.1-5level"


def pack() -> list[Path]:
    """Packs the vmcore. zstd's level 19 keeps its window at 8 MiB, which zstd unpacks without an option."""
    tools.need("zstd")
    made = make.make(RECIPES["sample"])
    SAMPLES.mkdir(exist_ok=True)
    packed = []
    for file, name in (("vmcore", f"{NAME}.elf.zst"), ("kpageflags", f"{NAME}.kpageflags.zst")):
        tools.run(["zstd", "-19", "-q", "-f", made / file, "-o", SAMPLES / name], timeout=1800)
        packed.append(SAMPLES / name)
    for file, name in (("manifest.json", f"{NAME}.json"), ("pages.txt", f"{NAME}.pages.txt")):
        shutil.copyfile(made / file, SAMPLES / name)
        packed.append(SAMPLES / name)
    for path in packed:
        path.chmod(0o644)
    return packed
