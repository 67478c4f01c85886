"""Debian 12 in a directory, debootstrapped with kdump-tools and one of the lab's kernels. It is made once and kept."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cache, kernels, tools
from .errors import LabError, Unavailable
from .kernels import Kernel

SUITE = "bookworm"
SERIES = "6.1"
# Packages of a Debian with kdump-tools, including makedumpfile, which kdump-tools recommends.
PACKAGES = (
    "initramfs-tools", "kdump-tools", "makedumpfile", "procps", "systemd-sysv", "udev", "zstd",
    # For the image that tests the dracut module.
    "cpio", "dracut-core",
)  # fmt: skip
# Modules required by the guest's disks and file system. An initrd with most modules, or with those that mkinitramfs
# detects on the running machine, takes minutes to make in an emulated guest.
MODULES = ("virtio_pci", "virtio_blk", "ext4", "crc32c_generic")
FILES = {
    "etc/initramfs-tools/conf.d/modules": "MODULES=list\n",
    "usr/share/initramfs-tools/modules.d/guest": "\n".join(MODULES) + "\n",
    "etc/fstab": "/dev/vda / ext4 errors=remount-ro 0 1\n",
    "etc/hostname": "debian\n",
    "etc/apt/apt.conf.d/90guest": 'APT::Install-Recommends "false";\nAPT::Sandbox::User "root";\n',
}
# apt's package cache, which keeps makedumpfile's package for reinstallation.
ARCHIVES = "var/cache/apt/archives"
# Daily jobs, not needed in a guest that runs for minutes.
MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer")


@dataclass(frozen=True)
class Tree:
    """The root directory, and the kernel installed in it."""

    root: Path
    kernel: Kernel


def _sources() -> list[tuple[str, str]]:
    """Returns URI and distribution of the suite's main components, as configured for this machine's apt."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    listed = tools.run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"])
    found = {(fields[0], fields[1]) for line in listed.splitlines() if (fields := line.split())[2:] == ["main"]}
    sources = sorted(source for source in found if re.fullmatch(rf"{SUITE}(-updates|-security)?", source[1]))
    if not any(distribution == SUITE for _, distribution in sources):
        raise Unavailable(f"apt has no {SUITE} (Debian 12) among its sources")
    return sources


def run_in(root: Path, command: Sequence[str], *, timeout: float = 900) -> str:
    """Runs a command with this root in separate namespaces, so that its mounts end with it; returns its standard
    output."""
    inner = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    environment = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"]
    return tools.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", inner, root, *environment, *command], timeout=timeout
    )


def get() -> Tree:
    """Returns the tree, and makes it if necessary."""
    if os.geteuid() != 0:
        raise Unavailable("debootstrap requires root")
    tools.need("apt-get", "debootstrap", "mke2fs")
    kernel = kernels.get(SERIES)
    recipe = repr((SUITE, PACKAGES, FILES, MASKED, ARCHIVES, kernel.version))
    name = f"{SUITE}-{kernel.release}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"
    final = cache.root() / ".debian" / name
    with cache.lock("debian"):
        if not final.exists():
            with cache.new_directory(final) as made:
                _make(made, kernel)
    return Tree(final, kernel)


def _make(root: Path, kernel: Kernel) -> None:
    sources = _sources()
    (mirror,) = {uri for uri, distribution in sources if distribution == SUITE}
    try:
        tools.run(["debootstrap", "--variant=minbase", SUITE, root, mirror], timeout=1800)
    except LabError as error:
        raise Unavailable(f"debootstrap is not possible on this machine: {error}") from error
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "etc/apt/sources.list").write_text("".join(f"deb {uri} {suite} main\n" for uri, suite in sources))
    # Services are not started while packages are installed.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    run_in(root, ["apt-get", "update"])
    run_in(root, ["apt-get", "install", "-y", *PACKAGES])
    try:
        run_in(root, ["apt-get", "install", "-y", f"{kernel.package}={kernel.version}"])
    except LabError as error:
        raise Unavailable(
            f"{kernel.package} {kernel.version} is no longer available; vmtest/vmcores make --remake uses the "
            f"newest kernel\n{error}"
        ) from error
    for unit in MASKED:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    run_in(root, ["apt-get", "clean"])
    run_in(root, ["sh", "-c", f"cd /{ARCHIVES} && apt-get download makedumpfile"])
    shutil.rmtree(root / "var/lib/apt/lists")
    (root / "var/lib/apt/lists/partial").mkdir(parents=True)


def copy(tree: Tree, target: Path) -> Path:
    """Makes a copy that may be changed; it shares blocks if the file system supports that."""
    done = subprocess.run(["cp", "-a", "--reflink=auto", tree.root, target], capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"cannot copy the Debian: {done.stderr.strip()}")
    return target


def install(root: Path, packages: Sequence[Path]) -> None:
    """Installs packages by apt, which removes packages that conflict with them."""
    for package in packages:
        shutil.copy(package, root / ARCHIVES)
    names = [f"/{ARCHIVES}/{package.name}" for package in packages]
    run_in(root, ["apt-get", "install", "-y", "--no-download", *names])
    for package in packages:
        (root / ARCHIVES / package.name).unlink()
