"""Debian's kernels: found with apt, downloaded without installing, and unpacked into the cache."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from . import apt, cache, tools
from .errors import Unavailable
from .architectures import ARCHITECTURES, NATIVE, Architecture


@dataclass(frozen=True)
class Kernel:
    """One unpacked kernel."""

    series: str  # 6.1
    release: str  # output of uname -r, such as 6.1.0-53-cloud-amd64
    version: str  # version of the Debian package, such as 6.1.187-1
    package: str
    directory: Path

    @property
    def architecture(self) -> Architecture:
        of = [one for one in ARCHITECTURES.values() if self.release.endswith(one.kernels)]
        return of[0] if of else next(ARCHITECTURES[part] for part in self.release.split("-") if part in ARCHITECTURES)

    @property
    def vmlinuz(self) -> Path:
        boot = self.directory / "boot"
        compressed = boot / f"vmlinuz-{self.release}"
        # Power's is not compressed.
        return compressed if compressed.exists() else boot / f"vmlinux-{self.release}"

    @property
    def page_size(self) -> int:
        """Returns the size of the kernel's pages in bytes."""
        options = (self.directory / "boot" / f"config-{self.release}").read_text()
        large = re.search(r"^CONFIG_(?:PPC|ARM64)_(16|64)K_PAGES=y$", options, re.MULTILINE)
        return int(large[1]) << 10 if large else 4096

    @property
    def modules(self) -> Path:
        return self.directory / "lib" / "modules" / self.release


def _release_order(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def _flavours(architecture: str, flavour: str) -> tuple[str, ...]:
    """Returns the ends of releases: the flavour, or those of the architecture in order of preference."""
    return (flavour,) if flavour else ARCHITECTURES[architecture].kernels


def _packages(series: str, architecture: str, flavour: str) -> list[str]:
    """Returns the series' kernel packages of the first flavour that apt lists, newest first."""
    for end in _flavours(architecture, flavour):
        name = rf"linux-image-{re.escape(series)}\.[^ ]*-{end}"
        names = [found for found in apt.search(name, architecture) if re.fullmatch(name, found)]
        if names:
            return sorted(names, key=_release_order, reverse=True)
    return []


def _unavailable(what: str, reason: str) -> Unavailable:
    return Unavailable(
        f"kernel package {what} is not available: {reason}.\n"
        "Run `apt-get update`, or add a Debian release that has it to the apt sources "
        "(bookworm has 6.1 and 6.12, trixie has 6.12)."
    )


def fetch(package: str, directory: Path, architecture: str = NATIVE) -> str:
    """Downloads a package, unpacks it into `directory`, and returns its version."""
    try:
        deb = apt.download(package, architecture, directory)
    except Unavailable as error:
        raise _unavailable(package, str(error)) from error
    tools.run(["dpkg-deb", "-x", deb.name, "."], cwd=directory)
    version = tools.run(["dpkg-deb", "-f", deb.name, "Version"], cwd=directory).strip()
    deb.unlink()
    return version


def cached(series: str, architecture: str = NATIVE, flavour: str = "") -> list[Kernel]:
    """Returns the unpacked kernels of a series, architecture and flavour, newest first."""
    found = []
    for described in (cache.root() / ".kernels").glob("*/kernel.json"):
        fields = json.loads(described.read_text())
        kernel = Kernel(**fields, directory=described.parent)
        fits = kernel.series == series and kernel.architecture.debian == architecture
        if fits and kernel.release.endswith(_flavours(architecture, flavour)):
            found.append(kernel)
    return sorted(found, key=lambda kernel: _release_order(kernel.release), reverse=True)


def get(series: str, *, architecture: str = NATIVE, flavour: str = "", newest: bool = False) -> Kernel:
    """Returns a kernel of a series such as "6.1": the cached one, so that vmcores made on different days match. If none
    is cached, or `newest` is set, returns the newest that apt offers."""
    with cache.lock(f"kernel-{series}-{flavour or architecture}"):
        have = cached(series, architecture, flavour)
        if have and not newest:
            return have[0]
        try:
            return _fetch_newest(series, architecture, flavour, have)
        except Unavailable:
            if have:
                return have[0]
            raise


def _fetch_newest(series: str, architecture: str, flavour: str, have: list[Kernel]) -> Kernel:
    wanted = f"linux-image-{series}.*-{_flavours(architecture, flavour)[0]}"
    if tools.find("apt-cache") is None:
        raise _unavailable(wanted, "this is not a Debian system")
    names = _packages(series, architecture, flavour)
    if not names and apt.update(architecture):
        names = _packages(series, architecture, flavour)
    if not names:
        raise _unavailable(wanted, "apt does not list one")
    release = names[0].removeprefix("linux-image-")
    for kernel in have:
        if kernel.release == release:
            return kernel
    tools.need("dpkg-deb")
    final = cache.root() / ".kernels" / release
    with cache.new_directory(final) as made:
        version = fetch(names[0], made, architecture)
        shutil.rmtree(made / "usr", ignore_errors=True)
        fields = {"series": series, "release": release, "version": version, "package": names[0]}
        (made / "kernel.json").write_text(json.dumps(fields, indent=1) + "\n")
    return Kernel(**fields, directory=final)


def debug_symbols(kernel: Kernel) -> Path:
    """Returns vmlinux with debug information for a kernel; only that file of the -dbg package is kept."""
    final = cache.root() / ".debuginfo" / f"{kernel.release}-{kernel.version}"
    vmlinux = final / "vmlinux"
    with cache.lock(f"debuginfo-{kernel.release}"):
        if not vmlinux.exists():
            with cache.new_directory(final) as made:
                version = fetch(f"{kernel.package}-dbg", made, kernel.architecture.debian)
                if version != kernel.version:
                    raise Unavailable(f"{kernel.package}-dbg is version {version}, the kernel is {kernel.version}")
                inside = made / "usr" / "lib" / "debug" / "boot" / f"vmlinux-{kernel.release}"
                inside.rename(made / "vmlinux")
                shutil.rmtree(made / "usr")
    return vmlinux
