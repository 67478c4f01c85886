"""The guest's root file system: a cpio archive, unpacked by the kernel, with busybox, the project's programs and
modules."""

import lzma
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import apt, tools
from .architectures import ARCHITECTURES, NATIVE, Architecture
from .errors import LabError
from .kernels import Kernel

GUEST = Path(__file__).resolve().parent.parent / "guest"
KEXEC_TOOLS = GUEST.parent / "guest-kexec-tools"

# In loading order, since the unpacked package has no modules.dep. Some are built into Debian's 6.12. qemu_fw_cfg passes
# the address of VMCOREINFO to QEMU, which includes it in the dump.
MODULES = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "virtio_balloon",
    "qemu_fw_cfg",
]


class Archive:
    """A cpio archive in the "newc" format (kernel: Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inode = 0

    def _add(self, name: str, mode: int, content: bytes) -> None:
        self._inode += 1
        encoded = name.encode() + b"\0"
        # inode mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
        fields = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, 5, 1, len(encoded), 0)
        if not stat.S_ISCHR(mode):
            fields = (*fields[:9], 0, 0, *fields[11:])
        for part in (b"070701" + b"".join(b"%08x" % field for field in fields) + encoded, content):
            self._data += part
            self._data += b"\0" * (-len(self._data) % 4)

    def add_file(self, name: str, content: bytes, executable: bool = False) -> None:
        self._add(name, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def add_directory(self, name: str) -> None:
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def add_console(self) -> None:
        """Adds /dev/console, character device 5:1: without it, init has no standard output."""
        self._add("dev/console", stat.S_IFCHR | 0o600, b"")

    def finish(self) -> bytes:
        self._add("TRAILER!!!", 0, b"")
        return bytes(self._data)


def compile_guest(
    program: str, sources: list[str], into: Path, architecture: Architecture = ARCHITECTURES[NATIVE], link: str = "-static"
) -> bytes:
    """Compiles one static program from guest/, or from sources whose paths are absolute."""
    tools.need(architecture.compiler)
    output = into / program
    tools.run([architecture.compiler, "-O2", "-std=gnu17", link, "-s", "-o", output, *(GUEST / source for source in sources)])
    return output.read_bytes()


def libraries(program: Path) -> set[str]:
    """Returns the shared objects that a program needs, including the loader, by their paths."""
    printed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout  # fails for static programs
    return set(re.findall(r"(/\S+) \(0x", printed))


def add_programs(archive: Archive, programs: Mapping[str, Path]) -> None:
    """Adds programs and libraries by their names in the guest, with the required shared objects. The directories of the
    names must exist."""
    needed = sorted({path for program in programs.values() for path in libraries(program)})
    directories = {str(parent)[1:] for path in needed for parent in Path(path).parents if parent != Path("/")}
    for directory in sorted(directories):
        archive.add_directory(directory)
    for name, path in programs.items():
        archive.add_file(name, path.read_bytes(), executable=True)
    for path in needed:
        archive.add_file(path[1:], Path(path).read_bytes(), executable=True)


def busybox(architecture: Architecture) -> Path:
    """Returns a static busybox of an architecture."""
    if architecture.is_native:
        return tools.static_busybox()
    return apt.tree(("busybox-static",), architecture.debian) / "bin" / "busybox"


def add_foreign(archive: Archive, programs: Mapping[str, Path], tree: Path) -> None:
    """Adds programs of another architecture by their names in the guest, with the loader and libraries that they need,
    from a directory of unpacked packages."""
    places = {file.name: file for file in tree.rglob("*.so*") if file.is_file()}
    found = dict(programs)
    waiting = list(found.values())
    while waiting:
        program = waiting.pop()
        for name in _needed(program):
            path = f"lib/{name}"
            if path not in found:
                if name not in places:
                    raise LabError(f"{program.name} needs {name}, which no package has")
                found[path] = places[name]
                waiting.append(places[name])
    for loader in {_loader(program) for program in programs.values()}:
        found[loader] = found.pop(f"lib/{Path(loader).name}")
    for directory in sorted({Path(name).parent.as_posix() for name in found} | {"lib"}):
        archive.add_directory(directory)
    for name, file in found.items():
        archive.add_file(name, file.read_bytes(), executable=True)


def _add_kexec_tools(archive: Archive, architecture: Architecture) -> None:
    """Adds Debian's kexec: its kernels for this architecture have no kexec_file_load(2)."""
    tree = apt.tree(("kexec-tools",), architecture.debian)
    add_foreign(archive, {"sbin/kexec": tree / "sbin" / "kexec"}, tree)
    script = (KEXEC_TOOLS / "load_crash_kernel").read_bytes()
    archive.add_file("load_crash_kernel", script, executable=True)


def _loader(program: Path) -> str:
    """Returns the path, below the root, of the loader of a dynamic program of any architecture."""
    printed = tools.run(["readelf", "-lW", program])
    found = re.search(r"program interpreter: /(\S+)\]", printed)
    if not found:
        raise LabError(f"{program} names no loader")
    return found[1]


def _needed(program: Path) -> set[str]:
    """Returns the names of the shared objects of a program of any architecture, which include its loader."""
    printed = tools.run(["readelf", "-ldW", program])
    loader = re.findall(r"program interpreter: (\S+)\]", printed)
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", printed)) | {Path(path).name for path in loader}


def modules(kernel: Kernel, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Returns name and content of each module that the kernel package has; the others are built in."""
    found = []
    for name in names:
        files = [*kernel.modules.rglob(f"{name}.ko"), *kernel.modules.rglob(f"{name}.ko.xz")]
        if files:
            content = files[0].read_bytes()
            found.append((name, lzma.decompress(content) if files[0].suffix == ".xz" else content))
    return found


def build(kernel: Kernel, plan: str, workdir: Path, more_modules: Sequence[str] = (), *, kexec: bool = True) -> bytes:
    """Builds the archive for a guest that fills its memory according to `plan` (lines KIND PAGES), and loads a capture
    kernel if `kexec`."""
    archive = Archive()
    for directory in ("dev", "modules"):
        archive.add_directory(directory)
    archive.add_console()
    architecture = kernel.architecture
    archive.add_file("busybox", busybox(architecture).read_bytes(), executable=True)
    archive.add_file("init", (GUEST / "init").read_bytes(), executable=True)
    fill = compile_guest("fill", ["fill.c", "report.c"], workdir, architecture)
    archive.add_file("fill", fill, executable=True)
    if architecture.is_native:
        loader = compile_guest("load_crash_kernel", ["load_crash_kernel.c"], workdir)
        archive.add_file("load_crash_kernel", loader, executable=True)
    elif kexec:
        _add_kexec_tools(archive, architecture)
    archive.add_file("plan", plan.encode())
    found = modules(kernel, [*MODULES, *architecture.modules, *more_modules])
    if not any(name == "virtio_blk" for name, _ in found):
        raise LabError(f"{kernel.package} has no module virtio_blk")
    for place, (name, content) in enumerate(found):
        archive.add_file(f"modules/{place:02}-{name}.ko", content)
    return archive.finish()
