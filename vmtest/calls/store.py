"""The cache of sources and built programs."""

import os
import shutil
from pathlib import Path

from lab import cache, kernels, tools
from lab.errors import Unavailable

# Debian packages of the tests, and the parts to unpack: (package, tarball, members).
GLIBC = ("glibc-source", "usr/src/glibc/glibc-*.tar.xz", ())
LINUX = ("linux-source-6.1", "usr/src/linux-source-6.1.tar.xz", ("*/tools/testing/selftests/*",))


def root() -> Path:
    """Returns $BIGIRON_SUITES, or bigiron/suites in the user's cache directory."""
    named = os.environ.get("BIGIRON_SUITES")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bigiron" / "suites"


def source(package: str, tarball: str, members: tuple[str, ...]) -> Path:
    """Returns the unpacked tree of a source package, from the cache or the network."""
    kept = root() / "sources" / package
    with cache.lock(f"source-{package}"):
        if not kept.exists():
            tools.need("apt-get", "dpkg-deb")
            with cache.new_directory(kept) as made:
                version = _fetch(package, made)
                (packed,) = made.glob(tarball)
                wanted = ["--wildcards", *members] if members else []
                tools.run(["tar", "-xf", str(packed), "-C", str(made), "--no-same-owner", *wanted])
                shutil.rmtree(made / "usr")
                (made / "version").write_text(version + "\n")
    (tree,) = [path for path in kept.iterdir() if path.is_dir()]
    return tree


def _fetch(package: str, directory: Path) -> str:
    try:
        return kernels.fetch(package, directory)
    except Unavailable:
        if not tools.update_package_lists():
            raise
        return kernels.fetch(package, directory)


def version(package: str) -> str:
    """Returns the version of a source package in the cache."""
    return (root() / "sources" / package / "version").read_text().strip()
