"""A guest with a memory cgroup, and the pages that a rule finds of it."""

import re
from pathlib import Path

from tools import Bigiron
from verdict import Verdict

from . import faults
from .fault_cases import Case

CASE = Case("user-charged", "", settle=0)
RULE = '[[rule]]\naction = "keep"\ncgroup = "charged"\n'
PAGE = 4096


def judge(bigiron: Bigiron, series: str, work: Path) -> Verdict:
    """Judges that a rule finds as many pages as the kernel counts: anonymous ones, and page cache.

    Page tables and stacks are charged as objects of the kernel, and are not of the rule.
    """
    made = faults.dump(CASE, series)
    console = (made / "console.log").read_text(errors="replace")
    counted = {name: int(number) for name, number in re.findall(r"faults: charged (\w+) (\d+)", console)}
    verdict = Verdict(f"{series} memory cgroup")
    if not verdict.require(counted.keys() >= {"anon", "file", "shmem"}, f"the guest told {counted}: {console[-500:]}"):
        return verdict
    verdict.require(min(counted[name] for name in ("anon", "file", "shmem")) >= 2 << 20, f"too little memory: {counted}")
    rules = work / "rules.toml"
    rules.write_text(RULE)
    vmcore = made / "vmcore"
    (row,) = bigiron.json("rules", "check", "--json", str(rules), str(vmcore))
    expected = (counted["anon"] + counted["file"]) // PAGE
    verdict.count("pages", expected)
    verdict.require(row["pages"] == expected, f"the rule has {row['pages']} pages, and the kernel counts {expected}")
    dumped = bigiron.json("dump", "--json", "-d", "31", "--rules", str(rules), str(vmcore), str(work / "dump"))["pages"]
    kept = dumped["kept_by_rules"]
    verdict.require(kept == expected, f"the rule keeps {kept} pages of {expected}")
    return verdict
