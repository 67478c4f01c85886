"""A real Xen host: Debian's hypervisor with a PV dom0 and PV guests, which crashes and copies its /proc/vmcore."""

import gzip
import json
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import apt, cache, disks, initramfs, kernels, qemu, tools
from .architectures import NATIVE
from .errors import LabError, Unavailable

INIT = Path(__file__).resolve().parent.parent / "guest-xen" / "init"
RAM_MIB = 1536
# A processor without SVM and with few features: with more of them, dom0 dies early under emulation, or the hypervisor
# waits forever in mwait.
PROCESSOR = "Nehalem"
HYPERVISOR = r"xen-hypervisor-4\.[0-9]+-amd64"
KERNEL = r"linux-image-6\.1\.[0-9-]+-amd64"
# What the programs in dom0 need besides the packages of the hypervisor's version.
PACKAGES = (
    "busybox-static kexec-tools libc6 zlib1g liblzma5 libzstd1 libuuid1 libgcc-s1 libxencall1 libxendevicemodel1 "
    "libxenevtchn1 libxenforeignmemory1 libxengnttab1 libxenhypfs1 libxenstore4 libxentoolcore1 libxentoollog1 libyajl2 "
    "libnl-3-200 libnl-route-3-200 libfdt1 libbz2-1.0 liblzo2-2 libjson-c5 libsystemd0 libcap2 libgcrypt20 "
    "libgpg-error0 liblz4-1"
).split()
DOM0_MODULES = [
    # Not qemu_fw_cfg, whose DMA to dom0's addresses never ends.
    *(name for name in initramfs.MODULES if name.startswith("virtio") and name != "virtio_balloon"),
    *("crc32c_generic", "crc16", "mbcache", "jbd2", "ext4"),
    *("xen-evtchn", "xen-gntdev", "xen-gntalloc", "xen-privcmd", "xenfs"),
]


@dataclass(frozen=True)
class Host:
    """A host, and how it ends."""

    directory: str  # beginning of its name in the cache
    end: str  # as in the JSON of bigiron info
    dom0_words: str = ""


# The hypervisor crashes by the key C, with one guest; or dom0 panics, with a paused and a crashed guest besides.
HOSTS = (Host("xen", "request"), Host("xen-dom0", "dom0", "vmtest.panic"))


def find(host: Host) -> Path | None:
    """Returns the directory of the host that was made, or None."""
    made = sorted(cache.root().glob(f"{host.directory}-[0-9]*/vmcore"))
    return made[-1].parent if made else None


def make(host: Host, remake: bool = False) -> Path:
    """Returns the directory of the host's vmcore, console and manifest; makes it, which takes about six minutes."""
    with cache.lock(host.directory):
        made = find(host)
        if made and not remake:
            return made
        tree = _tree()
        version = json.loads((tree / "versions.json").read_text())["hypervisor"]
        final = cache.root() / f"{host.directory}-{version}"
        with cache.new_directory(final) as directory, tempfile.TemporaryDirectory() as scratch:
            _run(host, tree, directory, Path(scratch))
        return final


def _newest(pattern: str) -> str:
    for _ in range(2):
        names = [name for name in apt.search(pattern, NATIVE) if re.fullmatch(pattern, name)]
        if names:
            return max(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
        if not apt.update(NATIVE):
            break
    raise Unavailable(f"apt lists no package {pattern}")


def _tree() -> Path:
    """Returns a directory of the cache with the hypervisor, its tools and dom0's kernel, unpacked."""
    final = cache.root() / ".trees" / "xen-host"
    if final.exists():
        return final
    tools.need("apt-get", "dpkg-deb")
    hypervisor, kernel = _newest(HYPERVISOR), _newest(KERNEL)
    version = hypervisor.split("-")[2]
    of_version = [hypervisor, kernel, f"xen-utils-{version}", f"libxenmisc{version}"]
    with cache.new_directory(final) as made:
        versions = {name: kernels.fetch(name, made) for name in [*of_version, *PACKAGES]}
        described = {"hypervisor": versions[hypervisor], "kernel": kernel.removeprefix("linux-image-")}
        (made / "versions.json").write_text(json.dumps(described, indent=1) + "\n")
    return final


def _initramfs(tree: Path, release: str, programs: Iterable[str]) -> bytes:
    """Returns an archive with busybox, modules, and programs of the tree with the libraries that they need."""
    archive = initramfs.Archive()
    for directory in ("dev", "modules", "lib", "lib64", "sbin"):
        archive.add_directory(directory)
    archive.add_console()
    archive.add_file("init", INIT.read_bytes(), executable=True)
    archive.add_file("busybox", (tree / "bin" / "busybox").read_bytes(), executable=True)
    places = {file.name: file for file in sorted(tree.rglob("*.so*")) if file.exists()}
    found: dict[str, Path] = {}
    for program in programs:
        (found[f"sbin/{program}"],) = [file for file in tree.rglob(program) if file.is_file() and "bin" in file.parent.name]
    # What pthread_cancel(3) loads is not among the needed libraries.
    waiting = [*found.values()] + ([places["libgcc_s.so.1"]] if found else [])
    if found:
        found["lib/libgcc_s.so.1"] = places["libgcc_s.so.1"]
    while waiting:
        for name in initramfs._needed(waiting.pop()):
            path = f"lib64/{name}" if name.startswith("ld-linux") else f"lib/{name}"
            if path not in found:
                if name not in places:
                    raise LabError(f"a program of dom0 needs {name}, which no package has")
                found[path] = places[name]
                waiting.append(places[name])
    for name, file in found.items():
        archive.add_file(name, file.read_bytes(), executable=True)
    kernel = kernels.Kernel("6.1", release, "", "", tree)
    for number, (name, content) in enumerate(initramfs.modules(kernel, DOM0_MODULES)):
        archive.add_file(f"modules/{number:02}-{name}.ko", content)
    return gzip.compress(archive.finish(), compresslevel=1)


def _run(host: Host, tree: Path, directory: Path, scratch: Path) -> None:
    """Boots the host, and keeps what its capture kernel copies."""
    release = json.loads((tree / "versions.json").read_text())["kernel"]
    vmlinuz = tree / "boot" / f"vmlinuz-{release}"
    (packed,) = [file for file in (tree / "boot").glob("xen-4*.gz")]
    hypervisor = scratch / "xen"
    hypervisor.write_bytes(gzip.decompress(packed.read_bytes()))
    dom0 = scratch / "dom0"
    dom0.write_bytes(_initramfs(tree, release, ["xl", "xenstored", "xen-init-dom0", "xenconsoled", "kexec"]))
    files = scratch / "files"
    files.mkdir()
    shutil.copy(vmlinuz, files / "vmlinuz")
    (files / "initrd").write_bytes(_initramfs(tree, release, []))
    data, copy = scratch / "data", scratch / "copy"
    disks.make_ext4(data, files, 64)
    disks.make_raw_disk(copy, (RAM_MIB + 64) << 20)
    options = (
        "com1=115200,8n1 console=com1 loglvl=all dom0_mem=640M,max:640M dom0_max_vcpus=2 crashkernel=256M noreboot"
    )
    machine = qemu.Machine(
        scratch, kernel=hypervisor, initrd=Path(f"{vmlinuz} console=hvc0 {host.dom0_words},{dom0}"), command_line=options, ram_mib=RAM_MIB,
        levels=4, disks=[data, copy], timeout=3600, accel="tcg", processor=PROCESSOR, more=("-M", "q35"),
    )  # fmt: skip
    with machine as running:
        running.wait_for('bigiron-vmtest: {"vmcore"')
        running.wait_for_end()
    console = running.console()
    size = re.search(r'bigiron-vmtest: {"vmcore": (\d+)}', console)
    if not size:
        raise LabError("the capture kernel did not print the size of its copy")
    shutil.move(copy, directory / "vmcore")
    with open(directory / "vmcore", "r+b") as file:
        file.truncate(int(size[1]))
    (directory / "console.log").write_text(console)
    (directory / "manifest.json").write_text(json.dumps(said(console), indent=1) + "\n")


# A line of `xl list -v`: name, number, memory, virtual CPUs, letters of the state, time, UUID, code of a shutdown.
_LISTED = re.compile(r"^\S+ +(\d+) +\d+ +(\d+)\s+([rbpscd-]{6}) +[\d.]+ ([\da-f-]{36}) +(\d+|-)", re.MULTILINE)


def said(console: str) -> dict[str, object]:
    """Returns what the hypervisor printed about its memory for the keys H and q, and how xl listed the domains."""
    free = [int(count) for count in re.findall(r"heap\[node=\d+\]\[zone=\d+\] -> (\d+) pages", console)]
    domains = re.findall(r"General information for domain (\d+):.*?nr_pages=(\d+)", console, re.DOTALL)
    version = re.search(r"Xen version (\S+)", console)
    if not free or not domains or not version:
        raise LabError("the hypervisor did not print its memory")
    return {
        "version": version[1],
        "free": sum(free),
        "domains": {number: int(pages) for number, pages in domains},
        "listed": {
            number: {"vcpus": int(vcpus), "letters": letters, "uuid": uuid, "code": None if code == "-" else int(code)}
            for number, vcpus, letters, uuid, code in _LISTED.findall(console)
        },
    }
