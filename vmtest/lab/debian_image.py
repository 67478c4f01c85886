"""An image for a capture kernel, made by dracut with the project's module and the options of kdump-utils' mkdumprd."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import kdump_layout
import same_dmesg
from tools import Bigiron, Makedumpfile
from verdict import Verdict

from . import debian_tree, make
from .debian_guest import GUEST
from .debian_tree import Tree
from .errors import LabError
from .recipes import RECIPES

SOURCE = "6.1-5level-kdump"
MODULES = "usr/lib/dracut/modules.d"
# Line of kdump.conf, and the options that kdump.sh adds in a capture kernel with two processors.
CORE_COLLECTOR = "makedumpfile -l --message-level 7 -d 31"
SCRIPT = f"""
set -e
/sbin/vmcore-dmesg /proc/vmcore >/var/crash/vmcore-dmesg.txt
{CORE_COLLECTOR} --num-threads=2 /proc/vmcore /var/crash/vmcore-incomplete
{CORE_COLLECTOR} -F /proc/vmcore | dd of=/var/crash/raw bs=512 2>/dev/null
makedumpfile -v >/var/crash/version
"""


def judge(tree: Tree, packages: Sequence[Path], bigiron: Bigiron, work: Path) -> Verdict:
    """Makes the image, runs its programs on a real vmcore, and judges the output."""
    verdict = Verdict("dracut")
    root = debian_tree.copy(tree, work / "root")
    # Without bigiron-makedumpfile: the system keeps its own makedumpfile; only the image has bigiron's.
    debian_tree.install(root, [path for path in packages if path.name.startswith("bigiron_")])
    image = _make_image(root, tree.kernel.release, "kdump.img", ["IN_KDUMP=1"])
    ordinary = _make_image(root, tree.kernel.release, "ordinary.img", [])
    verdict.require(not (ordinary / "usr/bin/bigiron").exists(), "the module is part of an ordinary image")
    program = (root / "usr/lib/bigiron/bigiron").read_bytes()
    for name in ("usr/bin/bigiron", "usr/bin/makedumpfile", "sbin/makedumpfile", "sbin/vmcore-dmesg"):
        there = (image / name).exists() and (image / name).read_bytes() == program
        verdict.require(there, f"{name} in the image is not the static program")
    verdict.require(
        any((image / "lib/dracut/hooks/pre-mount").glob("*bigiron*")), "the image has no hook that dumps to a device"
    )
    _look_at_dumps(image, bigiron, verdict)
    vmcore = f"/{(image / 'proc/vmcore').relative_to(root)}"
    theirs = debian_tree.run_in(root, ["/sbin/vmcore-dmesg", vmcore]).encode()
    same_dmesg.equal("vmcore-dmesg", (image / "var/crash/vmcore-dmesg.txt").read_bytes(), theirs, verdict)
    return verdict


def _make_image(root: Path, release: str, name: str, environment: list[str]) -> Path:
    """Makes an image with all modules that select themselves, and unpacks it."""
    standin = root / MODULES / "99standin"
    if not standin.exists():
        shutil.copytree(GUEST / "99standin", standin)
    words = ["--no-kernel", "--no-hostonly", "--no-early-microcode", "--no-compress", "--kver", release]
    debian_tree.run_in(root, ["env", *environment, "dracut", *words, f"/tmp/{name}"])
    unpack = f"mkdir /tmp/{name}.d && cd /tmp/{name}.d && cpio --quiet -idm </tmp/{name}"
    debian_tree.run_in(root, ["sh", "-c", unpack])
    return root / "tmp" / f"{name}.d"


def _look_at_dumps(image: Path, bigiron: Bigiron, verdict: Verdict) -> None:
    vmcore = make.make(RECIPES[SOURCE]) / "vmcore"
    # The image's /proc is an empty directory: nothing is mounted on it.
    shutil.copy(vmcore, image / "proc/vmcore")
    crash = image / "var/crash"
    crash.mkdir(parents=True)
    command = ["chroot", image, "/bin/sh", "-c", SCRIPT]
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": path})
    if done.returncode != 0:
        raise LabError(f"the programs in the image fail: {done.stderr.strip() or done.stdout.strip()}")
    verdict.require("makedumpfile Completed." in done.stdout, f"the output is not that of core_collector: {done.stdout}")
    dump = crash / "vmcore-incomplete"
    verdict.merge(kdump_layout.judge(dump))
    verdict.require(kdump_layout.Kdump(dump).dump_level == 31, "the dump's level is not 31")
    for made in (dump, crash / "raw"):
        verdict.require(bigiron.verify(made) == 0, f"bigiron verify fails for {made.name}")
    verdict.require(dump.stat().st_mode & 0o777 == 0o600, "others may read the dump")
    reference = same_dmesg.by_makedumpfile(Makedumpfile(), vmcore, crash)
    same_dmesg.equal("makedumpfile", bigiron.log(dump), reference, verdict)
