"""stress-ng: its stressors of memory and processes, each with --verify and a fixed number of operations."""

from .programs import Program

# Number of operations that takes about a second, and other options of a stressor.
_STRESSORS: dict[str, tuple[int, tuple[str, ...]]] = {
    "shm-sysv": (40, ("--shm-sysv-bytes", "8M")),
    "shm": (20, ("--shm-bytes", "16M")),
    "mlock": (20000, ()),
    "mlockmany": (2000, ()),
    "mmap": (20, ("--mmap-bytes", "32M", "--mmap-mprotect")),
    "mmapaddr": (2000, ()),
    "mmapfixed": (2000, ()),
    "mmapfork": (4, ()),
    "mmaphuge": (200, ()),
    "mmapmany": (50000, ()),
    "madvise": (40, ()),
    "mremap": (200, ("--mremap-bytes", "32M", "--mremap-lock")),
    "munmap": (500, ()),
    "memfd": (20, ("--memfd-bytes", "64M")),
    "fork": (1000, ()),
    "vfork": (1000, ()),
    "clone": (1000, ()),
    "forkheavy": (50, ()),
    "vforkmany": (500, ()),
    "malloc": (20000, ("--malloc-bytes", "4M", "--malloc-touch")),
    "brk": (50000, ("--brk-mlock",)),
    "stack": (50, ("--stack-mlock",)),
    "bigheap": (2000, ("--bigheap-growth", "64K")),
    "mincore": (20000, ()),
    "msync": (200, ("--msync-bytes", "16M")),
    "msyncmany": (200, ()),
    "mprotect": (20000, ()),
    "remap": (200, ()),
    "rmap": (100, ()),
    "vm": (4000, ("--vm-bytes", "64M", "--vm-populate", "--vm-locked")),
    "vm-addr": (4, ()),
    "vm-rw": (20, ()),
    "vm-segv": (100, ()),
    "vm-splice": (2000, ()),
    "userfaultfd": (2000, ()),
    "exec": (200, ()),
    "exit-group": (200, ()),
    "zombie": (500, ()),
    "daemon": (100, ()),
    "pthread": (2000, ()),
    "sem-sysv": (20000, ()),
    "msg": (20000, ()),
    "tmpfs": (20, ()),
    "mcontend": (200, ()),
    "memthrash": (8, ()),
    "tlb-shootdown": (50, ()),
    "stackmmap": (20, ()),
    "spawn": (100, ()),
    "sigsegv": (2000, ()),
    "session": (200, ()),
    "secretmem": (50, ()),
    "pkey": (500, ()),
    "resources": (20, ()),
}
_NEAR = ("shm-sysv", "shm", "mlock", "mlockmany", "mmap", "mmapfork", "mremap", "munmap", "memfd", "fork", "vm")


def find(*, near: bool) -> list[Program]:
    """Returns one program for each stressor; with `near`, only for stressors of memory."""
    return [
        Program(
            suite="stress-ng",
            name=name,
            installed="stress-ng",
            arguments=(f"--{name}", "1", f"--{name}-ops", str(count), *more, "--verify", "--timeout", "10",
                       "--temp-path", "/tmp", "--oomable"),
        )
        for name, (count, more) in _STRESSORS.items()
        if not near or name in _NEAR
    ]  # fmt: skip
