"""The headers of Debian's kernels, unpacked without installing them, and modules built with them."""

import re
import shutil
from pathlib import Path

from . import apt, cache, kernels, tools
from .errors import LabError
from .kernels import Kernel


def _packages(kernel: Kernel) -> list[tuple[str, str]]:
    """Returns the packages with the headers of a kernel and the programs that build modules, and their architectures: the
    programs run here."""
    architecture = kernel.architecture.debian
    headers = f"linux-headers-{kernel.release}"
    depends = apt.depends(f"{headers}={kernel.version}", architecture)
    needed = re.findall(r"Depends: (linux-(?:headers-\S+-common|kbuild-\S+))", depends)
    if len(needed) != 2:
        raise LabError(f"{headers} depends on {needed}, not on common headers and kbuild")
    return [(name, kernels.NATIVE if name.startswith("linux-kbuild-") else architecture) for name in (headers, *needed)]


def get(kernel: Kernel) -> Path:
    """Returns the directory that has usr/src with the headers of a kernel."""
    final = cache.root() / ".headers" / f"{kernel.release}-{kernel.version}"
    with cache.lock(f"headers-{kernel.release}"):
        if not final.exists():
            with cache.new_directory(final) as made:
                for package, architecture in _packages(kernel):
                    kernels.fetch(package, made, architecture)
    return final


def build_module(kernel: Kernel, source: Path, work: Path, for_arm64: Path | None = None) -> bytes:
    """Builds the module whose Makefile is in `source`, in a copy below `work`; leaves it with debug information in `work`.
    For arm64, files of `for_arm64` replace those of the same names, and its arm64.h is included before each file."""
    architecture = kernel.architecture
    tools.need("make", "gcc", architecture.compiler)
    tree = get(kernel) / "usr" / "src"
    (common,) = tree.glob("linux-headers-*-common")
    copy = work / "module"
    shutil.copytree(source, copy)
    flavour = tree / f"linux-headers-{kernel.release}"
    # The compiler that Debian names need not be installed; modules are not checked for that. Types of a module (BTF) would
    # need pahole.
    options = [f"CC={architecture.compiler}", "CONFIG_DEBUG_INFO_BTF_MODULES="]
    if not architecture.is_native:
        options += [f"ARCH={architecture.linux}", f"CROSS_COMPILE={architecture.binutils}"]
    if for_arm64 and architecture.debian == "arm64":
        shutil.copytree(for_arm64, copy, dirs_exist_ok=True)
        options.append(f"KCFLAGS=-include {copy / 'arm64.h'}")
    tools.run(["make", "-s", "-C", common, f"O={flavour}", f"M={copy}", *options, "modules"])
    (module,) = copy.glob("*.ko")
    shutil.copy(module, work / f"{module.name}.debug")
    tools.run([f"{architecture.binutils}strip", "--strip-debug", module])
    return module.read_bytes()
