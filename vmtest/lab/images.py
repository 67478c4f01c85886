"""Images of a guest's memory by the programs that people use: LiME, AVML, QEMU's pmemsave, and libvirt."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import cache, headers, initramfs, kernels, qemu, tools
from .errors import LabError, Unavailable

INIT = Path(__file__).resolve().parent.parent / "guest-images" / "init"
SERIES = "6.12"
RAM_MIB = 256
PAGE = 4096
# The newest version when this was written. It writes the format in which bigiron reads it.
AVML = "0.21.0"
PORT = ("virtio_console",)
URI = "qemu:///session"
NOBODY = 65534


@dataclass(frozen=True)
class Image:
    """An image, and cores by QEMU of the same guest, before and after it was written."""

    image: Path
    before: Path
    after: Path
    ram: int  # page frames of RAM by the guest's /proc/iomem, as bits; 0 if the image has all


def lime() -> Path:
    """Returns Debian's source of LiME."""
    final = cache.root() / ".trees" / "lime"
    with cache.lock("lime"):
        if not final.exists():
            with cache.new_directory(final) as made:
                kernels.fetch("lime-forensics-dkms", made)
    (source,) = (final / "usr" / "src").iterdir()
    return source


def avml() -> Path:
    """Returns AVML, which cargo builds from crates.io."""
    final = cache.root() / ".trees" / f"avml-{AVML}"
    with cache.lock("avml"):
        if not final.exists():
            with cache.new_directory(final) as made:
                options = ["--version", AVML, "--locked", "--no-default-features", "--bin", "avml", "--root", str(made)]
                try:
                    tools.run(["cargo", "install", "avml", *options], timeout=1800)
                except LabError as error:
                    raise Unavailable(f"no avml: {error}") from error
    return final / "bin" / "avml"


def _archive(program: str, work: Path) -> Path:
    """Writes the guest's root file system, with the program that writes the image."""
    kernel = kernels.get(SERIES)
    archive = initramfs.Archive()
    for directory in ("dev", "modules"):
        archive.add_directory(directory)
    archive.add_console()
    archive.add_file("busybox", tools.static_busybox().read_bytes(), executable=True)
    archive.add_file("init", INIT.read_bytes(), executable=True)
    for place, (name, content) in enumerate(initramfs.modules(kernel, [*initramfs.MODULES, *PORT])):
        archive.add_file(f"modules/{place:02}-{name}.ko", content)
    if program == "lime":
        archive.add_file("lime.ko", headers.build_module(kernel, lime(), work))
    elif program == "avml":
        initramfs.add_programs(archive, {"avml": avml()})
    target = work / "initrd"
    target.write_bytes(archive.finish())
    return target


@contextmanager
def _guest(program: str, work: Path, accel: str) -> Iterator[qemu.Machine]:
    """Runs the guest until it is ready."""
    for end in ("in", "out"):
        os.mkfifo(work / f"port.{end}")
    port = ["-device", "virtio-serial-pci", "-chardev", f"pipe,id=port,path={work / 'port'}"]
    with qemu.Machine(
        work,
        kernel=kernels.get(SERIES).vmlinuz,
        initrd=_archive(program, work),
        # On a busy machine, emulated timers may look broken.
        command_line="no_timer_check",
        ram_mib=RAM_MIB,
        levels=4,
        disks=[],
        timeout=600,
        accel=accel,
        more=["-machine", "pc", *port, "-device", "virtserialport,chardev=port,name=bigiron"],
    ) as machine:
        machine.wait_for("bigiron-vmtest: ready")
        yield machine


def _dump(machine: qemu.Machine, core: Path) -> None:
    """Lets QEMU write a core of the guest, which stands still meanwhile."""
    machine.monitor("stop")
    machine.monitor("dump-guest-memory", paging=False, protocol=f"file:{core}")


def by_guest(program: str, work: Path, accel: str) -> Image:
    """Lets a program in the guest write the image."""
    image, before, after = work / program, work / "before", work / "after"
    with _guest(program, work, accel) as machine, open(image, "wb") as file:
        with subprocess.Popen(["cat", work / "port.out"], stdout=file) as received:
            try:
                _dump(machine, before)
                machine.monitor("cont")
                (work / "port.in").write_text(f"{program}\n")
                machine.wait_for("bigiron-vmtest: written")
                _dump(machine, after)
                console = machine.console()
                # The pipe ends when QEMU does.
                machine.kill()
            except BaseException:
                received.kill()
                raise
    ram = 0
    for first, last in re.findall(r"bigiron-vmtest: ram ([0-9a-f]+)-([0-9a-f]+)", console):
        start, end = -(-int(first, 16) // PAGE), (int(last, 16) + 1) // PAGE
        ram |= ((1 << (end - start)) - 1) << start
    return Image(image, before, after, ram)


def by_qemu(work: Path, accel: str) -> Image:
    """Lets QEMU write the image, raw, of a guest that stands still."""
    image, core = work / "raw", work / "core"
    with _guest("", work, accel) as machine:
        _dump(machine, core)
        machine.monitor("pmemsave", val=0, size=RAM_MIB << 20, filename=str(image))
    return Image(image, core, core, 0)


DOMAIN = """<domain type='qemu'><name>guest</name><memory unit='MiB'>{ram}</memory><vcpu>2</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type><kernel>{work}/vmlinuz</kernel><initrd>{work}/initrd</initrd>
<cmdline>console=ttyS0 panic=-1 no_timer_check</cmdline></os><cpu mode='maximum'/><features><acpi/></features>
<devices><emulator>{emulator}</emulator><serial type='file'><source path='{work}/console.log'/></serial>
<memballoon model='none'/></devices></domain>
"""


def by_libvirt(work: Path, form: str) -> Image:
    """Lets libvirt save a guest, raw or compressed by a program, of which it has made a core before. An ordinary user's daemon does that: the one of root
    is the machine's own."""
    tools.need("libvirtd", "virsh", "qemu-system-x86_64")
    shutil.copy(kernels.get(SERIES).vmlinuz, work / "vmlinuz")
    _archive("", work)
    emulator = tools.find("qemu-system-x86_64")
    (work / "domain.xml").write_text(DOMAIN.format(ram=RAM_MIB, work=work, emulator=emulator))
    settings = work / ".config" / "libvirt"
    settings.mkdir(parents=True)
    (settings / "qemu.conf").write_text(f'save_image_format = "{form}"\n')
    user: list[str] = []
    if os.geteuid() == 0:
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        for file in (work, *work.rglob("*")):
            os.chown(file, NOBODY, NOBODY)
    environment = {"HOME": str(work), "XDG_RUNTIME_DIR": str(work), "PATH": os.environ["PATH"] + ":/usr/sbin"}

    def virsh(*words: str | Path) -> None:
        command = [*user, "virsh", "-c", URI, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise LabError(f"virsh {words[0]}: {done.stderr.strip()}")

    with open(work / "libvirtd.log", "wb") as log:
        daemon = subprocess.Popen([*user, "libvirtd"], env=environment, stdout=log, stderr=log)
    try:
        _wait("libvirtd's socket", (work / "libvirt" / "libvirt-sock").exists, daemon)
        virsh("create", work / "domain.xml")
        try:
            console = work / "console.log"
            ready = lambda: console.exists() and b"bigiron-vmtest: ready" in console.read_bytes()  # noqa: E731
            _wait("the guest", ready, daemon)
            virsh("suspend", "guest")
            virsh("dump", "--memory-only", "guest", work / "core")
            virsh("save", "guest", work / "saved")
        except BaseException:
            subprocess.run([*user, "virsh", "-c", URI, "destroy", "guest"], env=environment, capture_output=True)
            raise
    finally:
        daemon.terminate()
        daemon.wait()
    return Image(work / "saved", work / "core", work / "core", 0)


def _wait(what: str, condition: Callable[[], bool], daemon: subprocess.Popen) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + 420
    while not condition():
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise LabError(f"libvirtd ended, or {what} was not ready in time")
        time.sleep(0.1)


def make(name: str, work: Path, accel: str) -> Image:
    """Makes an image by its name."""
    if name == "raw":
        return by_qemu(work, accel)
    if name.startswith("libvirt"):
        return by_libvirt(work, "gzip" if name == "libvirt-gzip" else "raw")
    return by_guest(name, work, accel)


NAMES = ("lime", "avml", "raw", "libvirt", "libvirt-gzip")


def directory() -> tempfile.TemporaryDirectory:
    """Returns a directory for one image, cores and sockets, whose names must be short."""
    return tempfile.TemporaryDirectory(prefix="bigiron-images.")
