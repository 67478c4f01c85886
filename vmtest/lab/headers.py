"""The headers of Debian's kernels, unpacked without installing them, and modules built with them."""

import re
import shutil
from pathlib import Path

from . import cache, kernels, tools
from .errors import LabError
from .kernels import Kernel


def _packages(kernel: Kernel) -> list[str]:
    """Returns the packages with the headers of a kernel and the programs that build modules."""
    headers = f"linux-headers-{kernel.release}"
    depends = tools.run(["apt-cache", "depends", f"{headers}={kernel.version}"])
    needed = re.findall(r"Depends: (linux-(?:headers-\S+-common|kbuild-\S+))", depends)
    if len(needed) != 2:
        raise LabError(f"{headers} depends on {needed}, not on common headers and kbuild")
    return [headers, *needed]


def get(kernel: Kernel) -> Path:
    """Returns the directory that has usr/src with the headers of a kernel."""
    final = cache.root() / ".headers" / f"{kernel.release}-{kernel.version}"
    with cache.lock(f"headers-{kernel.release}"):
        if not final.exists():
            with cache.new_directory(final) as made:
                for package in _packages(kernel):
                    kernels.fetch(package, made)
    return final


def build_module(kernel: Kernel, source: Path, work: Path) -> bytes:
    """Builds the module whose Makefile is in `source`, in a copy below `work`; leaves it with debug information in `work`."""
    tools.need("make", "gcc")
    tree = get(kernel) / "usr" / "src"
    (common,) = tree.glob("linux-headers-*-common")
    copy = work / "module"
    shutil.copytree(source, copy)
    flavour = tree / f"linux-headers-{kernel.release}"
    # The compiler that Debian names need not be installed; modules are not checked for that. Types of a module (BTF) would
    # need pahole.
    options = ["CC=gcc", "CONFIG_DEBUG_INFO_BTF_MODULES="]
    tools.run(["make", "-s", "-C", common, f"O={flavour}", f"M={copy}", *options, "modules"])
    (module,) = copy.glob("*.ko")
    shutil.copy(module, work / f"{module.name}.debug")
    tools.run(["strip", "--strip-debug", module])
    return module.read_bytes()
