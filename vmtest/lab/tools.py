"""Runs programs of the host with a time limit, and installs their packages."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .errors import LabError, Unavailable

PACKAGE_OF = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-system-ppc64": "qemu-system-ppc",
    "busybox": "busybox-static",
    "libvirtd": "libvirt-daemon libvirt-daemon-driver-qemu",
    "virsh": "libvirt-clients",
    "qemu-system-aarch64": "qemu-system-arm",
    "qemu-system-s390x": "qemu-system-misc",
    "qemu-system-riscv64": "qemu-system-misc opensbi",
    "qemu-aarch64-static": "qemu-user-static",
    "qemu-ppc64le-static": "qemu-user-static",
    "qemu-s390x-static": "qemu-user-static",
    "qemu-riscv64-static": "qemu-user-static",
    "gcc": "gcc",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "powerpc64le-linux-gnu-gcc": "gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross",
    "s390x-linux-gnu-gcc": "gcc-s390x-linux-gnu libc6-dev-s390x-cross",
    "riscv64-linux-gnu-gcc": "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
    "readelf": "binutils",
    "eu-addr2line": "elfutils",
    "debuginfod": "debuginfod",
    "mke2fs": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
    "zstd": "zstd",
    "strace": "strace",
    "debootstrap": "debootstrap",
    "dmsetup": "dmsetup",
    "fdtput": "device-tree-compiler",
    "cpio": "cpio",
    "depmod": "kmod",
}


def run(command: Sequence[str | Path], *, timeout: float = 600, cwd: Path | None = None) -> str:
    """Returns the standard output of a command. After a failure, raises an error with the end of the output."""
    try:
        done = subprocess.run(command, cwd=cwd, timeout=timeout, capture_output=True, text=True, errors="replace")
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{command[0]} took longer than {timeout:.0f} s") from error
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise LabError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n" + "\n".join(output))
    return done.stdout


def find(program: str) -> str | None:
    """Searches like `which`, but also in directories that only root's PATH contains: mke2fs is in /usr/sbin."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")


def update_package_lists() -> bool:
    """Updates the package lists, which a fresh container lacks. Returns true if apt has new lists."""
    if os.geteuid() != 0 or find("apt-get") is None:
        return False
    try:
        run(["apt-get", "update"])
        return True
    except LabError:
        return False


def need(*programs: str) -> None:
    """Ensures that the programs exist: installs them if permitted, otherwise reports the packages to install."""
    missing = sorted({name for program in programs if find(program) is None for name in PACKAGE_OF[program].split()})
    if not missing:
        return
    if os.geteuid() == 0 and find("apt-get"):
        for _ in range(2):
            try:
                run(["apt-get", "install", "-y", "--no-install-recommends", *missing])
                return
            except LabError:
                if not update_package_lists():
                    break
    raise Unavailable(
        f"missing on this machine: {', '.join(missing)}. Install with: apt-get install {' '.join(missing)}"
    )


def is_static(program: Path) -> bool:
    """Returns true for a static program. A dynamic one names its loader in PT_INTERP, right after the headers."""
    return b"/ld-" not in program.read_bytes()[:4096]


def static_busybox() -> Path:
    """Returns a static busybox. The guest has no libraries, so the dynamic one (package busybox) does not work."""
    need("busybox")
    path = Path(find("busybox") or "busybox")
    if not is_static(path):
        raise Unavailable(f"{path} is not static. Install with: apt-get install busybox-static")
    return path
