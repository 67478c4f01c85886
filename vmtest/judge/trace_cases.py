"""Logs with traces as architectures print them, for the proof that same_traces.py detects faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import same_traces

LOGS = {
    "x86-64": """\
[    3.1] task:kthreadd        state:S stack:0     pid:2     tgid:2     ppid:0      flags:0x00004000
[    3.1] Call Trace:
[    3.1]  <TASK>
[    3.1]  __schedule+0x10/0x100
[    3.1]  ? preempt_count_add+0x4/0x20
[    3.1]  sleeper+0x20/0x100 [virtio_balloon]
[    3.1]  </TASK>
[    3.1]  not_on_the_stack+0x1/0x2
""",
    "arm64": """\
[    3.1] task:kthreadd        state:S stack:    0 pid:    2 ppid:     0 flags:0x00000008
[    3.1] Call trace:
[    3.1]  __schedule+0x10/0x100
[    3.1]  sleeper+0x20/0x100
""",
    "riscv64": """\
[    3.1] task:kthreadd        state:S stack:0     pid:2     tgid:2     ppid:0      flags:0x00000000
[    3.1] Call Trace:
[    3.1] [<ffffffff80a1b2c4>] __schedule+0x10/0x100
[    3.1] [<ffffffff80a1b9d0>] sleeper+0x20/0x100
""",
    "ppc64le": """\
[    3.1] task:kthreadd        state:S stack:    0 pid:    2 ppid:     0 flags:0x00000800
[    3.1] Call Trace:
[    3.1] [c000000003e7f9d0] [c000000003e7fa30] 0xc000000003e7fa30 (unreliable)
[    3.1] [c000000003e7fbc0] [c0000000000d0a14] stale+0x4/0x10 (unreliable)
[    3.1] [c000000003e7fbc0] [c000000000f5a0f4] __schedule+0x10/0x100
[    3.1] [c000000003e7fca0] [c000000000f5a750] sleeper+0x20/0x100
""",
    "s390x": """\
[    3.1] task:kthreadd        state:S stack:    0 pid:    2 ppid:     0 flags:0x00000000
[    3.1] Call Trace:
[    3.1]  [<0000000000a8b8e6>] __schedule+0x10/0x100
[    3.1]  [<0000000000a8bca0>] sleeper+0x20/0x100
""",
}
SOUND = {2: [("__schedule", 0x10), ("sleeper", 0x20)]}
FAULTS = {
    "another function": {2: [("__schedule", 0x10), ("kthread", 0x20)]},
    "another offset": {2: [("__schedule", 0x10), ("sleeper", 0x24)]},
    "a missing frame": {2: [("__schedule", 0x10)]},
    "one frame more": {2: [*SOUND[2], ("kthread", 0x30)]},
    "no frames": {2: []},
}


def cases() -> Iterator[tuple[str, Callable[[], bool], bool]]:
    """The judge of stacks by the kernel's traces, on texts."""
    for name, log in LOGS.items():
        theirs = same_traces.printed(log)

        def passes(ours: dict[int, same_traces.Trace], theirs: dict[int, tuple[str, same_traces.Trace]] = theirs) -> bool:
            return same_traces.compare(theirs, ours).passed

        yield f"traces of {name}", lambda p=passes: p(SOUND), True
        for fault, ours in FAULTS.items():
            yield f"traces of {name}: {fault}", lambda p=passes, o=ours: p(o), False
