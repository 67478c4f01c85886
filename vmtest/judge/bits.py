"""Sets of page frames as Python integers: bit N is page frame N.

The order of bits is that of a dump's bitmaps (least significant first), so
reading one is a single conversion, and union, difference and counting are the
integer's own operations.
"""

from __future__ import annotations

from collections.abc import Iterator


def from_bitmap(raw: bytes, limit: int) -> int:
    """Returns the page frames below `limit` in a raw bitmap."""
    return int.from_bytes(raw, "little") & ((1 << min(limit, 8 * len(raw))) - 1)


def span(start: int, end: int) -> int:
    """Returns the page frames from start up to, but excluding, end."""
    return ((1 << (end - start)) - 1) << start if end > start else 0


def runs(pages: int, longest: int | None = None) -> Iterator[tuple[int, int]]:
    """Yields runs (start, end) of adjacent page frames, none longer than `longest`."""
    text = bin(pages)[:1:-1]
    start = text.find("1")
    while start >= 0:
        end = text.find("0", start)
        if end < 0:
            end = len(text)
        step = longest or end - start
        for part in range(start, end, step):
            yield part, min(part + step, end)
        start = text.find("1", end)


def members(pages: int) -> Iterator[int]:
    """Yields every page frame of the set, in order."""
    for start, end in runs(pages):
        yield from range(start, end)
