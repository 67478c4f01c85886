"""Installs the packages in a Debian by apt, which replaces makedumpfile, and removes them again."""

from collections.abc import Sequence
from pathlib import Path

from verdict import Verdict

from . import debian_tree
from .debian_tree import ARCHIVES, Tree

# Files that change with each run of apt and dpkg.
MOVING = ("var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/", "tmp/", "boot/initrd.img", "var/lib/kdump/")
NAMES = ("bigiron", "bigiron-makedumpfile", "libbigiron-mem0", "libbigiron-mem-dev")


def judge(tree: Tree, packages: Sequence[Path], work: Path) -> Verdict:
    """Installs and checks the packages, restores makedumpfile, purges the packages, and checks for remaining files."""
    verdict = Verdict("install")
    root = debian_tree.copy(tree, work / "root")
    before = _files(root)
    debian_tree.install(root, packages)
    verdict.require(_installed(root, "kdump-tools"), "kdump-tools was removed")
    verdict.require(not _installed(root, "makedumpfile"), "makedumpfile is still installed")
    owner = debian_tree.run_in(root, ["dpkg", "-S", "/usr/bin/makedumpfile"]).strip()
    verdict.require(owner == "bigiron-makedumpfile: /usr/bin/makedumpfile", f"{owner}")
    output = debian_tree.run_in(root, ["makedumpfile", "-v"])
    verdict.require("makedumpfile: version" in output, f"makedumpfile -v prints {output!r}")
    debian_tree.run_in(root, ["makedumpfile", "--check-params", "-c", "-d", "31", "-F", "/proc/vmcore"])
    enabled = debian_tree.run_in(root, ["systemctl", "is-enabled", "bigiron-save.service"]).strip()
    verdict.require(enabled == "enabled", f"bigiron-save.service is {enabled}")
    verdict.require(debian_tree.run_in(root, ["dpkg", "-V", *NAMES]) == "", "dpkg -V reports changes in our own packages")
    known = debian_tree.run_in(root, ["ldconfig", "-p"])
    verdict.require("libbigiron_mem.so.0 " in known, "the loader does not find the C library")

    (theirs,) = (root / ARCHIVES).glob("makedumpfile_*.deb")
    debian_tree.run_in(root, ["apt-get", "install", "-y", "--no-download", f"/{theirs.relative_to(root)}"])
    verdict.require(not _installed(root, "bigiron-makedumpfile"), "bigiron-makedumpfile is still installed")
    verdict.require(not (root / "usr/bin/makedumpfile").is_symlink(), "makedumpfile is still a link")
    debian_tree.run_in(root, ["apt-get", "purge", "-y", *NAMES])
    after = _files(root)
    verdict.require(after == before, f"remaining: {sorted(after - before)[:10]}, missing: {sorted(before - after)[:10]}")
    return verdict


def _installed(root: Path, package: str) -> bool:
    known = debian_tree.run_in(root, ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n"])
    return f"{package} installed" in known.splitlines()


def _files(root: Path) -> set[str]:
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or not path.is_dir()}
    return {name for name in names if not name.startswith(MOVING)}
