"""Compares `bigiron cpu mount` and `bigiron cpu tune` with the files of real kernels."""

from pathlib import Path
from typing import Any

from . import guest
from .guest import Topology

MACHINE = Topology("8", "8,sockets=2,cores=2,threads=2")
# Files that debugfs lacks in every kernel, and those that it lacks in 6.1 (ed74cc4995d3, 287372fa39f5).
OURS = {"6.1": {"span", "groups_flags", "level"}, "6.12": {"span"}}
# Value that changes while CPUs are idle.
MOVES = "max_newidle_lb_cost"

FUNCTIONS = """
SCHED=/sys/kernel/debug/sched
KERNEL=$SCHED/domains
VALUE=cpu0/domain1/imbalance_pct
# With the kernel's own files visible: from 6.4 on, verbose shows them; it is N before and after.
shown() {
    hidden=
    [ -d $KERNEL ] || { hidden=1; echo Y >$SCHED/verbose; }
    "$@"
    [ -z "$hidden" ] || echo N >$SCHED/verbose
}
part() { echo "---"; echo "--- $1"; }
try() { "$@" 2>&1; echo "status $?"; }
put() { echo "$1" >"$2"; }
# Repeats a command until it succeeds, for at most half a minute.
until_so() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || return 1
        usleep 100000
    done
}
cpu() { echo "$2" >"/sys/devices/system/cpu/cpu$1/online"; }
rebuilt() { cpu 7 0; cpu 7 1; }
is() { [ "$(shown cat $KERNEL/$VALUE)" = "$1" ]; }
# Does not change verbose, which another command is using.
looks() { [ "$(cat /mnt/$VALUE)" = "$1" ]; }
mount_it() {
    /bigiron cpu mount /mnt "$@" >/tmp/mount.log 2>&1 &
    mounter=$!
    until_so mounted /mnt || cat /tmp/mount.log
}
"""

SCRIPT = """
mount_it
part differences
# A line that starts with --- would end the section.
shown diff -r $KERNEL /mnt | sed 's/^---/===/'
echo compared
part size
find /mnt -type f | wc -l
cat /mnt/cpu*/domain*/flags | wc -l
dd if=/mnt/cpu0/domain0/flags bs=3 2>/dev/null | cmp - /mnt/cpu0/domain0/flags && echo same
ls -l /mnt/$VALUE /mnt/cpu0/domain0/name | cut -c1-10
part held
before=$(ls -id /mnt/cpu3/domain0/span)
cat /mnt/cpu3/domain0/span
exec 3</mnt/cpu3/domain0/span
cpu 3 0
cat <&3
exec 3<&-
try ls /mnt/cpu3
ls /mnt | wc -l
cat /mnt/cpu0/domain1/span
cpu 3 1
[ "$before" = "$(ls -id /mnt/cpu3/domain0/span)" ] && echo "same number"
part written
shown cat $KERNEL/$VALUE
try put 125 /mnt/$VALUE
shown cat $KERNEL/$VALUE
cat /mnt/$VALUE
try put many /mnt/$VALUE
try put 4294967296 /mnt/$VALUE
try put 1 /mnt/cpu0/domain1/flags
try touch /mnt/cpu0/new
cat /mnt/$VALUE
cat /tmp/mount.log
part saved
/bigiron cpu tune show
/bigiron cpu tune save /tmp/saved
cat /tmp/saved
/bigiron cpu tune save --all | wc -l
part applied
rebuilt
is 125 || echo forgotten
/bigiron cpu tune apply --dry-run /tmp/saved
is 125 || echo "still forgotten"
/bigiron cpu tune apply /tmp/saved
is 125 && echo "is back"
/bigiron cpu tune apply /tmp/saved
part kept
rebuilt
/bigiron cpu tune keep --every 100 /tmp/saved >/tmp/keep.log 2>&1 &
keeper=$!
until_so looks 125 && echo "at first"
rebuilt
until_so looks 125 && echo "and again"
kill -TERM $keeper
wait $keeper
echo "status $?"
is 125 && echo "in the kernel"
cat /tmp/keep.log
part left
umount /mnt
wait $mounter
echo "status $?"
cat $SCHED/verbose
ls /run/bigiron
part killed
# Kills at moments from before the start of the work until after its end.
sed s/125/126/ /tmp/saved >/tmp/other
now() { cut -d' ' -f1 /proc/uptime | tr -d .; }
/bigiron cpu tune apply /tmp/other >/dev/null
begin=$(now)
/bigiron cpu tune apply /tmp/saved >/dev/null
took=$((($(now) - begin) * 10000))
round=0
while [ $round -lt 12 ]; do
    file=/tmp/saved
    [ $((round % 2)) = 1 ] || file=/tmp/other
    /bigiron cpu tune apply $file >/dev/null 2>&1 &
    usleep $((took * round / 10))
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    [ $? != 137 ] || killed=$((killed + 1))
    until_so grep -q N $SCHED/verbose || echo "verbose stays on"
    round=$((round + 1))
done
# Usually at least half are killed in time; three suffice, because the machine may have become faster since the first run.
echo "killed $((killed > 2))"
/bigiron cpu restore
cat $SCHED/verbose
part old
mount_it --layout sysctl
ls -1 /mnt/cpu0/domain0
cat /mnt/cpu0/domain0/flags
umount /mnt
wait $mounter
part refused
# BPF requires the kernel's types.
mount -t tmpfs none /sys/kernel/btf
mount_it
ls -1 /mnt/cpu0/domain1
cat /mnt/cpu0/domain1/span
try put 127 /mnt/$VALUE
try /bigiron cpu tune show
cat /tmp/mount.log
umount /mnt
wait $mounter
umount /sys/kernel/btf
part end
"""

WITHOUT = """
mount_it
part without
cat /mnt/cpu0/domain1/span
try put 125 /mnt/$VALUE
cat /mnt/$VALUE
cat /tmp/mount.log
umount /mnt
wait $mounter
part end
"""


def _boot(series: str, bigiron: Path, script: str, command_line: str = "") -> str:
    return guest.run_here(MACHINE, series, {"bigiron": bigiron}, FUNCTIONS + script, command_line=command_line)


def _differences(text: str, series: str) -> list[str]:
    """Returns the unexpected lines of `diff -r`'s output."""
    wrong = []
    in_moving = whole = False
    for line in text.splitlines():
        if line == "compared":
            whole = True
        elif line.startswith("Only in "):
            in_moving = False
            # busybox prints the path after the colon.
            if not line.startswith("Only in /mnt: ") or line.rsplit("/", 1)[-1] not in OURS[series]:
                wrong.append(line)
        elif line.startswith(("=== ", "+++ ")):
            in_moving = MOVES in line
            wrong += [] if in_moving else [line]
        elif not in_moving:
            wrong.append(line)
    if not whole or any(f"Only in /mnt: cpu{cpu}/domain0/span" not in text for cpu in range(8)):
        wrong.append("diff reports no span file: was everything compared?")
    return wrong


def _missing(text: str, words: list[str]) -> list[str]:
    """Returns `words` from the first one that is missing or out of order."""
    at = 0
    for place, word in enumerate(words):
        found = text.find(word, at)
        if found < 0:
            return words[place:]
        at = found + len(word)
    return []


# Expected output of each part, in order.
EXPECTED: dict[str, list[str]] = {
    "size": ["264\n24\nsame\n", "-r--r--r--\n-rw-r--r--\n"],
    "held": ["2-3\n2-3\n", "No such file", "status 1\n7\n0-2\nsame number\n"],
    "written": [
        "117\nstatus 0\n125\n125\n",
        "Invalid argument",
        "Invalid argument",
        "Permission denied",
        "Operation not permitted",
        "status 1\n125\n",
        "is mounted on /mnt",
        'cpu0/domain1/imbalance_pct: "many\\n": expected a number from 0 to 4294967295',
    ],
    "saved": ["125*", "* differs", '"cpus": "0"', '"imbalance_pct": 125'],
    "applied": [
        "forgotten\n",
        "117 -> 125  CPUs 0\n1 values would change, 0 unchanged\n",
        "still forgotten\n",
        "117 -> 125  CPUs 0\n1 values changed, 0 unchanged\n",
        "is back\n",
        "0 values changed, 1 unchanged\n",
    ],
    "kept": ["at first\nand again\nstatus 0\nin the kernel\n", "1 values changed", "1 values changed"],
    "left": ["status 0\nN\n"],
    "old": ["busy_factor\n", "cache_nice_tries\n", "flags\n", "imbalance_pct\n", "max_interval\n", "span\n"],
    "killed": ["killed 1\nnothing to restore\nN\n"],
    "without": ["0-3\n", "Read-only file system", "status 1\n117\n", "debugfs=off"],
}


# Expected output where BPF is refused: 6.1 shows everything by other means, 6.12 with verbose N only the spans.
REFUSED = {
    "6.1": ["flags\n", "imbalance_pct\n", "name\n", "span\n", "0-3\n", "status 0\n", "127*", "status 0\n", "BPF is not available"],
    "6.12": ["span\n0-3\n", "status 1\n", "cannot be read", "status 1\n", "BPF is not available"],
}


def _part(console: str, series: str, name: str) -> dict[str, Any]:
    text = guest.section(console, name)
    expected = EXPECTED | {"refused": REFUSED[series]}
    wrong = _differences(text, series) if name == "differences" else _missing(text, expected[name])
    if name == "left" and "journal" in text:
        wrong.append("a journal is left")
    if name == "old" and ("level" in text or not any(line.isdigit() for line in text.splitlines())):
        wrong.append("flags as a number")
    for line in [*wrong[:12], *(text.splitlines()[-20:] if wrong else [])]:
        print(f"    {line}")
    detail = f"{len(wrong)} unexpected results" if wrong else "as expected"
    return {"run": f"{series} {name}", "status": len(wrong), "detail": detail}


def run(bigiron: Path, series: str, full: bool) -> list[dict[str, Any]]:
    """Runs all parts. The kernel without debugfs has a guest of its own."""
    console = _boot(series, bigiron, SCRIPT)
    names = ["differences", *(name for name in EXPECTED if name != "without"), "refused"]
    records = [_part(console, series, name) for name in names]
    return records + [_part(_boot(series, bigiron, WITHOUT, "debugfs=off"), series, "without")]
