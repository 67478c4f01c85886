"""Tests of large memory with the system's own tools and calls."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any, cast
from unittest import mock

from bigiron import mem

PROGRAM = Path(os.environ["BIGIRON_PROGRAM"])
SIZE = 24 << 20
NAME = f"/bigiron-python-{os.getpid()}"
C = ctypes.CDLL(None, use_errno=True)


def segments() -> dict[int, list[str]]:
    """Returns the lines of ipcs by id: key, owner, permissions, bytes, attachments."""
    lines = subprocess.run(["ipcs", "-m"], check=True, capture_output=True, text=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return {int(line[1]): [line[0], *line[2:6]] for line in words if len(line) >= 6 and line[1].isdigit()}


def resident(address: int, size: int) -> int:
    """Returns the number of resident bytes, by mincore."""
    there = ctypes.create_string_buffer(size // mmap.PAGESIZE)
    if C.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), there) != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(byte & 1 for byte in there.raw) * mmap.PAGESIZE


def smaps(address: int, name: str) -> int:
    """Returns the bytes in a field of the mapping that begins at an address."""
    found = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            found = int(words[0].split("-")[0], 16) == address
        elif found and words[0] == name + ":":
            return int(words[1]) << 10
    raise LookupError(name)


class Segments(unittest.TestCase):
    def test_system_v_segment_is_listed_by_ipcs_until_its_with_ends(self) -> None:
        with mem.create("system-v", SIZE, mode=0o640, page_size="small", lock=True) as segment:
            self.assertIsNotNone(segment.id)
            identity = segment.id or 0
            self.assertEqual(segments()[identity][2:], ["640", str(SIZE), "1"])
            self.assertEqual(resident(segment.address, SIZE), SIZE)
            self.assertEqual(segment.state()["resident"], SIZE)
            with mem.attach(identity, read_only=True) as other:
                self.assertEqual(segments()[identity][4], "2")
                with memoryview(segment) as view, memoryview(other) as seen:
                    self.assertFalse(view.readonly)
                    self.assertTrue(seen.readonly)
                    view[-3:] = b"end"
                    self.assertEqual(bytes(seen[-3:]), b"end")
                    with self.assertRaises(TypeError):
                        seen[0] = 1
            self.assertTrue(other.closed)
            self.assertEqual(segments()[identity][4], "1")
        self.assertTrue(segment.closed)
        self.assertNotIn(identity, segments())

    def test_views_keep_the_memory_mapped(self) -> None:
        segment = mem.create("anonymous", SIZE)
        address = segment.address
        view = memoryview(segment)
        part = view[5:10]
        for end in (segment.close, segment.destroy):
            with self.assertRaises(BufferError):
                end()
        self.assertFalse(segment.closed)
        view.release()
        with self.assertRaises(BufferError):
            segment.close()
        part[:] = b"still"
        del segment, end
        self.assertEqual(bytes(part), b"still")
        self.assertEqual(resident(address, SIZE), SIZE)
        part.release()
        with self.assertRaises(OSError):
            resident(address, SIZE)

    def test_closed_segment_raises_value_error(self) -> None:
        segment = mem.create("memfd", SIZE, name="test")
        self.assertEqual(os.stat(segment.descriptors[0]).st_size, SIZE)
        descriptor = segment.descriptors[0]
        segment.close()
        segment.close()
        with self.assertRaises(OSError):
            os.fstat(descriptor)
        for use in (lambda: memoryview(segment), lambda: len(segment), segment.lock, segment.destroy, segment.state):
            with self.assertRaisesRegex(ValueError, "closed"):
                use()
        self.assertIn("closed", repr(segment))

    def test_posix_memory_has_name_and_stripes(self) -> None:
        for stripes in (1, 3):
            with mem.create("posix", SIZE, name=NAME, stripes=stripes) as segment:
                paths = [f"/dev/shm{NAME}"] if stripes == 1 else [f"/dev/shm{NAME}.{n}" for n in range(stripes)]
                self.assertEqual([str(path) for path in segment.paths], paths)
                self.assertEqual(sum(os.stat(path).st_blocks * 512 for path in paths), SIZE)
                program = (
                    "import sys; from bigiron import mem; segment = mem.attach(sys.argv[1]); view = memoryview(segment); "
                    "view[0] = 1; view[-1] = 2"
                )
                subprocess.run([sys.executable, "-c", program, NAME], check=True)
                with memoryview(segment) as view:
                    self.assertEqual((view[0], view[-1]), (1, 2))
                with self.assertRaises(FileExistsError):
                    mem.create("posix", SIZE, name=NAME, stripes=stripes)
            self.assertFalse(any(os.path.exists(path) for path in paths))

    def test_remaining_segments_are_removed_by_name(self) -> None:
        mem.create("posix", SIZE, name=NAME).close()
        self.assertEqual(mem.prewarm(NAME), SIZE)
        mem.remove(NAME)
        self.assertFalse(os.path.exists(f"/dev/shm{NAME}"))
        with self.assertRaises(ValueError):
            mem.remove(NAME)

    def test_locking(self) -> None:
        with mem.create("posix", SIZE, name=NAME, page_size="small") as segment:
            self.assertEqual(smaps(segment.address, "Locked"), 0)
            segment.lock()
            self.assertEqual(smaps(segment.address, "Locked"), SIZE)
            self.assertEqual(segment.state()["locked"], SIZE)
            segment.unlock()
            self.assertEqual(smaps(segment.address, "Locked"), 0)

    def test_placement_counts_pages_by_node(self) -> None:
        with mem.create("anonymous", SIZE, numa="bind=0", page_size="small") as segment:
            self.assertEqual(segment.placement(100), {0: 100})
        with mem.create("anonymous", SIZE, populate=False, page_size="small") as segment:
            self.assertEqual(segment.placement(100), {-1: 100})

    def test_progress_is_reported_and_exception_ends_the_call(self) -> None:
        told: list[int] = []
        with mem.create("posix", 640 << 20, name=NAME, progress=told.append):
            self.assertGreaterEqual(len(told), 2)
            self.assertEqual(told, sorted(told))
            self.assertEqual(told[-1], 640 << 20)

        def stop(done: int) -> None:
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            mem.create("posix", 640 << 20, name=NAME, progress=stop)
        self.assertFalse(os.path.exists(f"/dev/shm{NAME}"))

    def test_errors_state_the_expected_arguments(self) -> None:
        with self.assertRaisesRegex(ValueError, "expected system-v"):
            mem.create("nothing", SIZE)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "name"):
            mem.create("posix", SIZE)
        with self.assertRaisesRegex(ValueError, "NODES"):
            mem.create("anonymous", SIZE, numa="near")
        with self.assertRaisesRegex(ValueError, "1 to 64"):
            mem.create("anonymous", SIZE, helpers=65)
        with self.assertRaises(OverflowError):
            mem.create("anonymous", -1)
        with self.assertRaises(OSError) as raised:
            mem.create("anonymous", 1 << 46)
        self.assertIn("available memory", str(raised.exception))
        with self.assertRaises(ValueError):
            mem.attach("/no-such-segment")


class Buffers(unittest.TestCase):
    def test_mmap_is_populated_and_locked(self) -> None:
        # Small pages: a huge page would be resident after the first access.
        memory = mmap.mmap(-1, SIZE)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        with memoryview(memory) as view:
            address = ctypes.addressof(ctypes.c_char.from_buffer(view))
            self.assertEqual(resident(address, SIZE), 0)
            mem.populate(view[: SIZE // 2])
            self.assertEqual(resident(address, SIZE), SIZE // 2)
            mem.populate(memory, write=True)
            self.assertEqual(resident(address, SIZE), SIZE)
            mem.lock(memory)
            self.assertEqual(smaps(address, "Locked"), SIZE)
            mem.unlock(memory)
            self.assertEqual(smaps(address, "Locked"), 0)
        self.assertEqual(memory[:4], bytes(4))

    def test_invalid_buffer_raises_an_error(self) -> None:
        with self.assertRaises(TypeError):
            mem.populate("text")  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "contiguous"):
            mem.populate(memoryview(bytes(100))[::2])

    def test_file_is_prewarmed(self) -> None:
        with tempfile.NamedTemporaryFile(dir=".") as file:
            file.write(bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            self.assertEqual(mem.prewarm(file.name), SIZE)
            with mmap.mmap(file.fileno(), SIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as seen:
                address = ctypes.addressof(ctypes.c_char.from_buffer(seen))
                self.assertEqual(resident(address, SIZE), SIZE)

    def test_other_threads_run_during_calls(self) -> None:
        counted = 0
        done = threading.Event()

        def count() -> None:
            nonlocal counted
            while not done.is_set():
                counted += 1

        thread = threading.Thread(target=count)
        thread.start()
        # Progress is reported in the calling thread. On a busy machine the other thread may not run
        # between two reports, so this goes on until it does.
        for _ in range(1000):
            seen: list[int] = []
            with mem.create("anonymous", 640 << 20, progress=lambda _, seen=seen: seen.append(counted)):
                pass
            if seen[0] < seen[-1]:
                break
        done.set()
        thread.join()
        self.assertLess(seen[0], seen[-1])


class Explaining(unittest.TestCase):
    def test_explain_equals_the_command(self) -> None:
        with mock.patch.dict(os.environ, PATH=f"{PROGRAM.parent}:{os.environ['PATH']}"):
            # Free memory changes between the two reports.
            for _ in range(1000):
                before, told = self.by_command(), mem.explain()
                if before["steps"] == told["steps"]:
                    break
        self.assertEqual(told["steps"], before["steps"])
        self.assertEqual(set(told), set(before))
        facts = cast(dict[str, Any], told["facts"])
        self.assertEqual(set(facts), set(before["facts"]))
        same = set(facts) - {"available_bytes", "control_group_bytes", "pools"}
        self.assertEqual({name: facts[name] for name in same}, {name: before["facts"][name] for name in same})
        self.assertEqual(set(facts["pools"]), set(before["facts"]["pools"]))
        self.assertGreater(facts["available_bytes"], 0)

    def test_explain_describes_this_process(self) -> None:
        program = (
            "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); from bigiron import mem; "
            "told = mem.explain(); step = told['steps'][0]; print(told['facts']['processors'], step['verdict'], step['change'][0])"
        )
        told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
        self.assertRegex(told, "^1 plain .*taskset")

    def test_explain_without_the_program_reports_plain_programs(self) -> None:
        with mock.patch.dict(os.environ, PATH="/nonexistent"):
            told = mem.explain()
        self.assertNotIn("preload_library", told["facts"])
        self.assertIn(("unchanged programs", "plain"), [(step["step"], step["verdict"]) for step in told["steps"]])

    def by_command(self) -> Any:
        command = [PROGRAM, "mem", "explain", "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
