"""Debian packages, found with apt and unpacked without installing them; also those of other architectures, with
package lists of their own."""

import contextlib
import os
import re
from pathlib import Path

from . import cache, tools
from .errors import LabError, Unavailable
from .architectures import ARCHITECTURES, NATIVE

# Debian's own sources: others need not have the architecture.
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def as_root() -> list[str]:
    """Returns the options for downloads into the cache: as root, apt-get changes to the user _apt, which cannot write
    there."""
    return ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []


def _options(architecture: str) -> list[str]:
    if architecture == NATIVE:
        return as_root()
    suite = ARCHITECTURES[architecture].suite
    settings = [f"APT::Architecture={architecture}", f"APT::Architectures={architecture}", "Dir::State::status=/dev/null"]
    if not suite and SOURCES.exists():
        settings += [f"Dir::Etc::sourcelist={SOURCES}", "Dir::Etc::sourceparts=-"]
    return [*own_lists(architecture, suite), *(word for setting in settings for word in ("-o", setting))]


def own_lists(name: str, suite: str = "") -> list[str]:
    """Returns apt's options for package lists in the cache, which the system's apt does not know: of one suite of
    Debian, or of the system's sources."""
    state = cache.root() / ".apt" / name
    for directory in ("lists/partial", "cache/archives/partial"):
        (state / directory).mkdir(parents=True, exist_ok=True)
    settings = [
        f"Dir::State={state}", f"Dir::State::lists={state / 'lists'}", f"Dir::Cache={state / 'cache'}",
        "Acquire::Languages=none",
    ]  # fmt: skip
    if suite:
        sources = state / "sources.list"
        sources.write_text(f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main\n")
        settings += [f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=-"]
    return [*as_root(), *(word for setting in settings for word in ("-o", setting))]


def update(architecture: str) -> bool:
    """Updates the package lists, which a fresh container lacks. Returns true if apt may have new lists."""
    if architecture == NATIVE:
        return tools.update_package_lists()
    # One list that cannot be had makes apt-get fail; a search shows whether the others suffice.
    with contextlib.suppress(LabError):
        tools.run(["apt-get", *_options(architecture), "update"])
    return True


def search(pattern: str, architecture: str) -> list[str]:
    """Returns the names of packages that the extended regular expression matches."""
    listed = tools.run(["apt-cache", *_options(architecture), "search", "--names-only", f"^{pattern}$"])
    return [line.split()[0] for line in listed.splitlines() if line]


def depends(package: str, architecture: str) -> str:
    """Returns what apt-cache prints of the dependencies of a package."""
    return tools.run(["apt-cache", *_options(architecture), "depends", package])


def download(package: str, architecture: str, directory: Path) -> Path:
    """Downloads a package and returns its file."""
    before = set(directory.glob("*.deb"))
    try:
        tools.run(["apt-get", *_options(architecture), "download", package], cwd=directory, timeout=900)
    except LabError as error:
        raise Unavailable(f"download of {package} failed: {str(error).splitlines()[-1]}") from error
    (deb,) = set(directory.glob("*.deb")) - before
    return deb


def _with_dependencies(packages: tuple[str, ...], architecture: str) -> list[str]:
    """Returns the packages and all that they depend on, as on a system with nothing installed."""
    simulated = ["install", "--simulate", "--no-install-recommends", *packages]
    printed = tools.run(["apt-get", *_options(architecture), *simulated])
    return re.findall(r"^Inst (\S+) ", printed, re.MULTILINE)


def tree(packages: tuple[str, ...], architecture: str) -> Path:
    """Returns a directory of the cache with packages of another architecture and all that they depend on, unpacked."""
    final = cache.root() / ".trees" / f"{architecture}-{'-'.join(packages)}"
    with cache.lock(f"tree-{final.name}"):
        if final.exists():
            return final
        tools.need("apt-get", "dpkg-deb")
        try:
            names = _with_dependencies(packages, architecture)
        except LabError:
            if not update(architecture):
                raise
            names = _with_dependencies(packages, architecture)
        with cache.new_directory(final) as made:
            for name in names:
                deb = download(name, architecture, made)
                tools.run(["dpkg-deb", "-x", deb.name, "."], cwd=made)
                deb.unlink()
            _keep_links_inside(made)
    return final


def _keep_links_inside(tree: Path) -> None:
    """Makes absolute symbolic links relative, so that they lead into the tree: that of a loader is one."""
    for directory, directories, files in os.walk(tree):
        for name in (*directories, *files):
            link = Path(directory) / name
            if link.is_symlink() and link.readlink().is_absolute():
                inside = tree / link.readlink().relative_to("/")
                link.unlink()
                link.symlink_to(os.path.relpath(inside, directory))
