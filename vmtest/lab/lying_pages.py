"""A guest whose struct pages call the kernel's own memory page cache and user memory, and its dump of level 31."""

import re
from pathlib import Path

import crash_text
import mend_elf
from tools import Bigiron, Makedumpfile
from verdict import Verdict

from . import faults, kernels
from .fault_cases import Case

CASE = Case("lying-pages", "", settle=0)
# Commands whose answers do not depend on the class of any page.
COMMANDS = ("sys", "log", "ps", "bt -a", "mod", "kmem -s", "rd -s linux_banner 8", "vtop init_task")


def judge(bigiron: Bigiron, work: Path) -> Verdict:
    """Judges that bigiron keeps each page that the guest lied about, and that crash loses nothing by level 31.

    The control is makedumpfile's dump of the same level, which crash does not open.
    """
    kernel = kernels.get("6.1")
    made = faults.dump(CASE, "6.1")
    console = (made / "console.log").read_text(errors="replace")
    told = re.findall(r"faults: (\d+) lies about (.+)", console)
    total = re.search(r"faults: (\d+) lies$", console, re.MULTILINE)
    verdict = Verdict("lying struct pages")
    if not verdict.require(total is not None, f"the guest told no number of lies: {console[-500:]}"):
        return verdict
    for number, what in told:
        verdict.note(f"{number} lies about {what}")
    source = made / "vmcore"
    summary = bigiron.dump_summary(source, 31)
    verdict.count("lies", int(total[1]))
    found = summary["pages"]["kept_against_class"]
    verdict.require(found == int(total[1]), f"{found} page frames are kept against their class, of {total[1]}")
    warning = next((text for text in summary["warnings"] if "kernel itself" in text), "")
    for name in ("kernel image", "modules", "per-CPU", "page tables", "memory map", "VMCOREINFO", "stacks"):
        verdict.require(name in warning, f"the warning does not name {name}: {warning}")
    ours, theirs, mended = (work / name for name in ("level-31", "makedumpfile", "mended"))
    bigiron.dump(source, ours, 31, "lzo")
    vmlinux = str(kernels.debug_symbols(kernel))
    verdict.merge(crash_text.judge(vmlinux, str(ours), str(source), COMMANDS))
    mend_elf.mend(str(source), str(mended))
    Makedumpfile().dump(mended, theirs, 31)
    (control,) = crash_text.run(vmlinux, [str(theirs)], COMMANDS)
    verdict.require(not control.opened, "crash opens makedumpfile's dump: the guest's lies prove nothing")
    return verdict
