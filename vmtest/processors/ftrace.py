"""ftrace output of a guest: durations of chosen kernel functions between marks that a script sets."""

import base64
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from lab.errors import LabError

from . import guest

# Traces the listed functions that exist in the kernel, from entry to exit, including sleep.
SETUP = """
tracing=/sys/kernel/tracing
trace() {
    for function in "$@"; do
        ! grep -q "^$function\\$" $tracing/available_filter_functions || echo "$function"
    done >functions
    cat functions >$tracing/set_ftrace_filter
    echo mono >$tracing/trace_clock
    for option in funcgraph-abstime funcgraph-tail; do echo 1 >$tracing/options/$option; done
    echo function_graph >$tracing/current_tracer
}
mark() { echo "mark $*" >$tracing/trace_marker; }
show_trace() { echo "--- trace"; gzip <$tracing/trace | base64; echo "---"; }
"""

LINE = re.compile(r"\s*(\d+\.\d+) \|\s*\d+\)\s*\|?\s*(?:\S?\s*([\d.]+) us)?\s*\|\s*(.*)")
CALL = re.compile(r"(?:\} /\* )?(\w+)(?: \*/|\(\);)")
MARK = re.compile(r"/\* mark (.*?) \*/")


@dataclass
class Span:
    """The trace between a mark and the mark `end`."""

    words: list[str]
    begin: float  # seconds
    end: float = 0
    # Milliseconds of each call.
    calls: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def seconds(self) -> float:
        """Returns the time between the marks."""
        return self.end - self.begin


def spans(console: str) -> Iterator[Span]:
    """Yields all spans in order of time."""
    text = gzip.decompress(base64.b64decode(guest.section(console, "trace"))).decode(errors="replace")
    if "LOST" in text:
        raise LabError("the guest's trace has lost events: its buffer is too small")
    current = None
    for line in text.splitlines():
        found = LINE.match(line)
        if not found:
            continue
        time, duration, what = float(found[1]), found[2], found[3].strip()
        if mark := MARK.match(what):
            words = mark[1].split()
            if words == ["end"] and current:
                current.end = time
                yield current
                current = None
            elif words != ["end"]:
                current = Span(words, time)
        elif current and duration and (call := CALL.match(what)):
            current.calls[call[1]].append(float(duration) / 1000)
