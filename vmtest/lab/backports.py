"""Programs of Debian's backports, unpacked without installing them: for a test that needs a newer version than the
release has."""

import platform
from pathlib import Path

from . import apt, cache, tools
from .errors import LabError, Unavailable


def _options() -> list[str]:
    """Returns apt's options for package lists of the backports alone."""
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian" or "VERSION_CODENAME" not in release:
        raise Unavailable("only Debian has backports")
    return apt.own_lists("backports", f"{release['VERSION_CODENAME']}-backports")


def tree(packages: tuple[str, ...]) -> Path:
    """Returns a directory of the cache with these packages unpacked, without what they depend on: the installed
    version of the same programs has it."""
    final = cache.root() / ".trees" / f"backports-{packages[0]}"
    with cache.lock(f"tree-{final.name}"):
        if final.exists():
            return final
        tools.need("apt-get", "dpkg-deb")
        options = _options()
        try:
            tools.run(["apt-get", *options, "update"])
            with cache.new_directory(final) as made:
                tools.run(["apt-get", *options, "download", *packages], cwd=made, timeout=900)
                for deb in made.glob("*.deb"):
                    tools.run(["dpkg-deb", "-x", deb.name, "."], cwd=made)
                    deb.unlink()
        except LabError as error:
            raise Unavailable(f"no {packages[0]} of the backports: {error}") from error
    return final


def need_libraries(program: Path) -> None:
    """Checks that the libraries of an unpacked program are installed."""
    missing = [line.split()[0] for line in tools.run(["ldd", program]).splitlines() if "not found" in line]
    if missing:
        raise Unavailable(f"{program.name} of the backports needs {', '.join(missing)}")
