"""The recipes of vmcores. Sizes are in pages of the kernel, of 4 KiB unless the recipe says otherwise.

KASLR is always on (no `nokaslr`): a reader that works only at the default addresses must fail here.
"""

import hashlib
from dataclasses import asdict, dataclass, field

from .initramfs import GUEST
from .architectures import NATIVE

# To be increased when a change on the host's side changes the contents of vmcores.
RECIPE_VERSION = 1

EVERY_CLASS = {
    "hugetlb": 2048,
    "thp": 3072,
    "anon": 2048,
    "anon_zero": 1024,
    "anon_equal": 1024,
    "mlocked": 1024,
    "ksm": 256,
    "shm": 1536,
    "tmpfs": 1024,
    "slab": 1024,
    "cache_clean": 6144,
    "cache_dirty": 1024,
    "cache_private_clean": 1024,
    "cache_private_dirty": 1024,
    "poison": 5,
}

# All classes, each with few pages that still form several runs: samples that ship with the sources must be small.
A_LITTLE_OF_EVERY_CLASS = {
    "compressible": 1,
    "hugetlb": 512,
    "thp": 1024,
    "anon": 1024,
    "anon_zero": 512,
    "anon_equal": 512,
    "mlocked": 256,
    "ksm": 64,
    "shm": 512,
    "tmpfs": 256,
    "slab": 256,
    "cache_clean": 1024,
    "cache_dirty": 256,
    "cache_private_clean": 256,
    "cache_private_dirty": 256,
    "poison": 5,
}

# As few as still form runs: each page in use adds some 20 bytes of its struct page to the packed sample.
FEW_OF_EVERY_CLASS = {
    **{kind: 64 for kind in A_LITTLE_OF_EVERY_CLASS},
    "compressible": 1,
    "hugetlb": 512,
    "thp": 512,
    "poison": 5,
}

# About as many bytes in pages of 16 KiB. Huge pages have 32 MiB then, and guest/ aligns transparent ones to 2 MiB only.
EVERY_CLASS_16K = {kind: max(pages // 4, 5) for kind, pages in A_LITTLE_OF_EVERY_CLASS.items()} | {"hugetlb": 2048}

# About as many bytes in pages of 64 KiB.
EVERY_CLASS_64K = {kind: max(pages // 16, 5) for kind, pages in EVERY_CLASS.items()}

# On a panic, the kernel prints the trace of each task before it starts the capture kernel. Other processors have stopped
# then, so no task runs between its trace and the dump.
TRACES = "crash_kexec_post_notifiers panic_print=0x1 log_buf_len=1M"

MOSTLY_PAGE_CACHE = EVERY_CLASS | {"anon": 16384, "thp": 8192, "slab": 4096, "cache_clean": 150_000}


def _without(plan: dict[str, int], *kinds: str) -> dict[str, int]:
    return {kind: pages for kind, pages in plan.items() if kind not in kinds}


@dataclass(frozen=True)
class Recipe:
    """One vmcore: its kernel, machine, contents, and method of dumping."""

    name: str
    series: str
    levels: int  # levels of page tables
    how: str  # "qemu": dump-guest-memory; "kdump": a panic, after which the capture kernel copies /proc/vmcore
    ram_mib: int
    standard: bool = True
    crashkernel_mib: int = 0
    balloon: int = 6144
    plan: dict[str, int] = field(default_factory=lambda: dict(EVERY_CLASS))
    command_line: str = ""
    architecture: str = NATIVE
    flavour: str = ""  # end of the kernel's release, if not that of the architecture's usual kernel
    timeout: int = 420  # seconds for the whole run of the guest, on a slow and busy machine

    def plan_text(self) -> str:
        return "".join(f"{kind} {pages}\n" for kind, pages in self.plan.items())

    def hash(self) -> str:
        """Identifies the contents: changes with the recipe and with the guest's programs, not with the kernel."""
        # The name tells the architecture and the flavour.
        unsaid = ("timeout", "architecture", "flavour")
        contents = {name: value for name, value in asdict(self).items() if name not in unsaid}
        digest = hashlib.sha256(repr((RECIPE_VERSION, sorted(contents.items()))).encode())
        for source in sorted(GUEST.iterdir()):
            if source.is_file():
                digest.update(source.name.encode() + source.read_bytes())
        return digest.hexdigest()[:8]


_ALL = [
    Recipe("6.1-5level-qemu", "6.1", 5, "qemu", 256),
    Recipe("6.12-4level-qemu", "6.12", 4, "qemu", 256),
    Recipe("6.1-5level-kdump", "6.1", 5, "kdump", 384, crashkernel_mib=128),
    Recipe("6.12-4level-kdump", "6.12", 4, "kdump", 384, crashkernel_mib=128, command_line=TRACES),
    # init_on_free=1 clears data that the boot leaves in free pages and that would compress badly.
    Recipe(
        "sample",
        "6.1",
        5,
        "qemu",
        128,
        standard=False,
        balloon=1024,
        plan=A_LITTLE_OF_EVERY_CLASS,
        command_line="init_on_free=1",
    ),
    Recipe("6.1-5level-1g", "6.1", 5, "qemu", 1024, standard=False, plan=MOSTLY_PAGE_CACHE, timeout=900),
    Recipe(
        "6.1-5level-1g-kdump",
        "6.1",
        5,
        "kdump",
        1152,
        standard=False,
        crashkernel_mib=128,
        plan=MOSTLY_PAGE_CACHE,
        timeout=900,
    ),
    # With less memory, the kernel does not find room for a capture kernel of this size.
    Recipe(
        "6.12-arm64-kdump",
        "6.12",
        5,
        "kdump",
        768,
        standard=False,
        crashkernel_mib=256,
        command_line=TRACES,
        architecture="arm64",
        timeout=900,
    ),
    Recipe(
        "sample-arm64",
        "6.12",
        5,
        "kdump",
        448,
        standard=False,
        crashkernel_mib=160,
        balloon=256,
        plan=FEW_OF_EVERY_CLASS,
        command_line="init_on_free=1",
        architecture="arm64",
    ),
    Recipe(
        "6.12-arm64-qemu",
        "6.12",
        5,
        "qemu",
        128,
        standard=False,
        balloon=1024,
        plan=A_LITTLE_OF_EVERY_CLASS,
        command_line="init_on_free=1",
        architecture="arm64",
    ),
    Recipe(
        "6.12-arm64-16k-qemu",
        "6.12",
        4,
        "qemu",
        256,
        standard=False,
        balloon=256,
        plan=_without(EVERY_CLASS_16K, "thp"),
        command_line="init_on_free=1",
        architecture="arm64",
        flavour="arm64-16k",
        timeout=900,
    ),
    # Pages of 64 KiB, with either MMU. With hash, emulation has no huge pages.
    Recipe(
        "6.1-ppc64el-radix-qemu",
        "6.1",
        4,
        "qemu",
        768,
        standard=False,
        balloon=384,
        plan=EVERY_CLASS_64K,
        architecture="ppc64el",
        timeout=900,
    ),
    Recipe(
        "6.1-ppc64el-hash-qemu",
        "6.1",
        4,
        "qemu",
        768,
        standard=False,
        balloon=384,
        plan=_without(EVERY_CLASS_64K, "hugetlb", "thp"),
        command_line="disable_radix",
        architecture="ppc64el",
        timeout=900,
    ),
    # Emulation has no huge pages, and the kernel does not poison pages.
    Recipe(
        "6.1-s390x-qemu",
        "6.1",
        3,
        "qemu",
        256,
        standard=False,
        balloon=1024,
        plan=_without(A_LITTLE_OF_EVERY_CLASS, "hugetlb", "thp", "poison"),
        command_line="init_on_free=1",
        architecture="s390x",
        timeout=900,
    ),
    Recipe(
        "6.12-riscv64-qemu",
        "6.12",
        5,
        "qemu",
        256,
        standard=False,
        balloon=1024,
        plan=A_LITTLE_OF_EVERY_CLASS,
        command_line="init_on_free=1",
        architecture="riscv64",
        timeout=900,
    ),
    # Pages of 64 KiB.
    Recipe(
        "6.1-ppc64el-kdump",
        "6.1",
        4,
        "kdump",
        1024,
        standard=False,
        crashkernel_mib=320,
        balloon=384,
        plan=EVERY_CLASS_64K,
        architecture="ppc64el",
        timeout=1200,
    ),
]
RECIPES = {recipe.name: recipe for recipe in _ALL}
