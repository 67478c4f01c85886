"""The kernel's own tests of memory, IPC and processes (tools/testing/selftests), from Debian's source package."""

from pathlib import Path

from . import store
from .programs import Program

# Programs of a folder: all its C files except those that are parts of other programs.
_PARTS = {"vm_util", "common", "fuse_mnt", "write_to_hugetlbfs", "parse_vdso", "helpers"}
_FOLDERS = ("vm", "ipc", "memfd", "pidfd", "clone3", "proc", "sigaltstack", "rseq", "membarrier",
            "kcmp", "rlimits", "futex/functional", "vDSO", "exec", "core", "user_events", "x86", "nolibc",
            "ptrace", "signal", "capabilities", "mincore", "mqueue", "openat2", "tmpfs", "size", "splice")  # fmt: skip

# Additional source files of a program, as in the folder's Makefile.
_WITH = {
    "vm": ("vm_util.c",),
    "memfd": ("common.c",),
    "vDSO": ("parse_vdso.c",),
    "openat2": ("helpers.c",),
}

_LIBRARIES = {
    "vm/memfd_secret": ("-lcap",),
    "vm/mlock-random-test": ("-lcap",),
    "vm/migration": ("-lnuma",),
    "clone3/clone3_cap_checkpoint_restore": ("-lcap",),
}

_ARGUMENTS = {
    "vm/userfaultfd": ("anon", "20", "16"),
    "memfd/fuse_test": ("./none",),
}

# Their output depends on the time, used as a seed, and on the pages that each thread met first.
_NUMBERS_VARY = {"vm/mremap_test", "vm/userfaultfd"}

_CHANGES_THE_MACHINE = "changes settings of the whole machine"
_LEFT_OUT = {
    "vm/khugepaged": _CHANGES_THE_MACHINE,
    "vm/ksm_tests": _CHANGES_THE_MACHINE,
    "vm/compaction_test": _CHANGES_THE_MACHINE,
    "vm/protection_keys": _CHANGES_THE_MACHINE,
    "vm/split_huge_page_test": _CHANGES_THE_MACHINE,
    "vm/gup_test": "requires a kernel with CONFIG_GUP_TEST",
    "vm/hmm-tests": "requires a kernel with CONFIG_TEST_HMM",
}

# Also run as root: tests of memory that affect only their own process.
_AS_ROOT = (
    "hugepage-mmap", "hugepage-mremap", "hugepage-shm", "hugetlb-madvise", "madv_populate", "map_fixed_noreplace",
    "map_hugetlb", "map_populate", "memfd_secret", "mlock-random-test", "mlock2-tests", "mremap_dontunmap",
    "mremap_test", "mrelease_test", "on-fault-limit", "soft-dirty", "thuge-gen", "userfaultfd", "va_128TBswitch",
    "msgque", "memfd_test", "pidfd_test", "clone3", "clone3_set_tid",
)  # fmt: skip


def _is_program(source: Path) -> bool:
    text = source.read_text(errors="replace")
    return "main(" in text or "TEST_HARNESS_MAIN" in text


def _program(selftests: Path, source: Path, *, as_root: bool) -> Program:
    folder = str(source.parent.relative_to(selftests))
    name = f"{folder}/{source.stem}"
    beside = tuple(str(source.parent / part) for part in _WITH.get(folder, ()))
    return Program(
        suite=f"kernel/{folder.split('/')[0]}" + (" as root" if as_root else ""),
        name=name,
        source=source,
        flags=("-O2", "-w", "-s", "-D_GNU_SOURCE", f"-I{selftests}", f"-I{selftests.parents[2]}",
               f"-I{source.parent.parent}/include", *beside),
        libraries=("-lrt", "-lpthread", "-lm", "-ldl", *_LIBRARIES.get(name, ())),
        arguments=_ARGUMENTS.get(name, ()),
        left_out=_LEFT_OUT.get(name),
        as_root=as_root,
        numbers_vary=name in _NUMBERS_VARY,
    )  # fmt: skip


def find(*, root: bool) -> list[Program]:
    """Returns all tests for an ordinary user and, if `root` is available, some for root."""
    selftests = store.source(*store.LINUX) / "tools" / "testing" / "selftests"
    sources = [
        source
        for folder in _FOLDERS
        for source in sorted((selftests / folder).glob("*.c"))
        if source.stem not in _PARTS and _is_program(source)
    ]
    found = [_program(selftests, source, as_root=False) for source in sources]
    if root:
        found += [_program(selftests, source, as_root=True) for source in sources if source.stem in _AS_ROOT]
    return found
