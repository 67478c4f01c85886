"""Many crashes in a row in one guest: each dump waits in memory, and is saved before the next crash."""

from pathlib import Path

from tools import Bigiron
from verdict import Verdict

from .service import Plan, Serviced

# Room for a dump of the guest, and seconds for a crash, on a slow and busy machine.
MIB_PER_DUMP = 64
SECONDS_PER_CRASH = 120


def plan(crashes: int) -> Plan:
    """Returns the plan of a guest that crashes so many times."""
    return Plan(
        "storm",
        saved_mib=crashes * MIB_PER_DUMP + 256,
        words=f"vmtest.crashes={crashes}",
        timeout=crashes * SECONDS_PER_CRASH,
    )


def judge(ran: Serviced, bigiron: Bigiron, crashes: int) -> Verdict:
    """Judges that each crash has one dump, which is whole and its own."""
    verdict = Verdict("storm")
    ids = []
    for number in range(crashes):
        save, again = (ran.ran(f"{name}-{number + 2}").get("summary") or {} for name in ("save", "again"))
        if not verdict.require(save.get("complete") is True, f"crash {number + 1}: not saved: {save}\n{ran.tail()}"):
            break
        verdict.require(again.get("found") is False, f"crash {number + 1}: saved again: {again}")
        ids.append(save["id"])
        dump = ran.saved(f"vmdump.{number}")
        verdict.require(bigiron.verify(dump) == 0, f"crash {number + 1}: bigiron verify fails")
        log = bigiron.log(dump)
        verdict.require(f"marker before panic {number + 1}\n".encode() in log, f"crash {number + 1}: the dump of another")
        dump.unlink()
    verdict.require(len(set(ids)) == crashes, f"{len(set(ids))} dumps of {crashes} crashes")
    return verdict


def run(crashes: int, program: Path, accel: str) -> Verdict:
    """Runs the guest and judges its dumps."""
    with Serviced(plan(crashes), program, accel) as ran:
        return judge(ran, Bigiron(program), crashes)
