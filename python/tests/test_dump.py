"""Compares the package with drgn, which reads the same memory independently.

BIGIRON_VMCORE is the path of an ELF core, BIGIRON_DUMPS of other dumps of the same memory, separated by colons,
BIGIRON_PAGES of a list of page frames with the use that the guest made of them, and BIGIRON_PROGRAM of the program.
"""

from __future__ import annotations

import bz2
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bigiron
import drgn

VMCORE = os.environ["BIGIRON_VMCORE"]
DUMPS = os.environ["BIGIRON_DUMPS"].split(":")
PROGRAM = os.environ["BIGIRON_PROGRAM"]
PAGES = Path(os.environ["BIGIRON_PAGES"])


def theirs() -> drgn.Program:
    """Returns a drgn program for the ELF core."""
    program = drgn.Program()
    program.set_core_dump(VMCORE)
    return program


class Reading(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.program = theirs()
        cls.core = bigiron.open(VMCORE)
        cls.dumps = [bigiron.open(path) for path in DUMPS]

    def frames(self, dump: bigiron.Dump, count: int) -> list[int]:
        """Returns page frames that the dump contains, chosen at random but always the same."""
        some = random.Random(1)
        found: list[int] = []
        while len(found) < count:
            frame = some.randrange(self.core.end_frame)
            try:
                dump.pages(frame)
            except bigiron.FaultError:
                continue
            found.append(frame)
        return found

    def test_physical_memory_equals_that_of_drgn(self) -> None:
        for dump in (self.core, *self.dumps):
            for frame in self.frames(dump, 200):
                address = frame * dump.page_size
                expected = self.program.read(address, dump.page_size, physical=True)
                self.assertEqual(dump.read(address, dump.page_size, physical=True), expected)
                self.assertEqual(bytes(dump.pages(frame)), expected)

    def test_raw_image_is_read_by_its_memory_map(self) -> None:
        with open(VMCORE, "rb") as file:
            core = file.read()
        (table,) = struct.unpack_from("<Q", core, 32)
        (count,) = struct.unpack_from("<H", core, 56)
        lines, data = "", b""
        for number in range(count):
            kind, _, offset, _, start, size, *_ = struct.unpack_from("<IIQQQQQQ", core, table + 56 * number)
            if kind == 1:
                lines += f"{start:x}-{start + size - 1:x} : System RAM\n"
                data += core[offset : offset + size]
        with tempfile.NamedTemporaryFile() as image:
            image.write(data)
            image.flush()
            dump = bigiron.open(image.name, memory_map=lines)
            self.assertEqual(dump.release, self.core.release)
            for frame in self.frames(dump, 50):
                self.assertEqual(bytes(dump.pages(frame)), bytes(self.core.pages(frame)))
            for other, reason in (("memory", "memory_map"), ("", "memory_map")):
                with self.assertRaisesRegex(bigiron.Error, reason):
                    bigiron.open(image.name, memory_map=other)

    def test_kernel_addresses_are_translated_as_by_drgn(self) -> None:
        for dump in (self.core, *self.dumps):
            for name in ("linux_banner", "init_task", "init_uts_ns"):
                address = dump.symbol(name).address
                self.assertEqual(dump.read(address, 64), self.program.read(address, 64))
                physical = dump.translate(address)
                self.assertIsNotNone(physical)
                self.assertEqual(dump.read(physical or 0, 64, physical=True), self.program.read(address, 64))

    def test_view_of_pages_outlives_the_dump_and_is_read_only(self) -> None:
        dump = bigiron.open(DUMPS[0], cache=1 << 20)
        frame = self.frames(dump, 1)[0]
        view = memoryview(dump.pages(frame, 16))
        first = bytes(view)
        for other in self.frames(dump, 400):
            dump.pages(other)
        del dump
        self.assertEqual(bytes(view), first)
        self.assertTrue(view.readonly)
        self.assertEqual(len(view) % 4096, 0)

    def test_absent_memory_raises_fault_error(self) -> None:
        with self.assertRaises(bigiron.FaultError):
            self.core.read(0x10, 8)
        with self.assertRaises(bigiron.FaultError):
            self.core.read(self.core.end_frame << 20, 8, physical=True)
        level_31 = self.dumps[0]
        frames = range(0, level_31.end_frame, 7)
        left_out = 0
        for frame in frames:
            try:
                level_31.pages(frame)
            except bigiron.FaultError:
                left_out += 1
        self.assertGreater(left_out, len(frames) // 10)
        self.assertLess(left_out, len(frames))

    def test_concurrent_threads_read_correct_data(self) -> None:
        for dump in self.dumps:
            frames = self.frames(dump, 300)

            def read(seed: int) -> bool:
                mixed = frames.copy()
                random.Random(seed).shuffle(mixed)
                size = dump.page_size
                pages = ((frame, dump.read(frame * size, size, physical=True)) for frame in mixed)
                return all(page == expected[frame] for frame, page in pages)

            expected = {frame: bytes(self.core.pages(frame)) for frame in frames}
            with ThreadPoolExecutor(4) as threads:
                self.assertTrue(all(threads.map(read, range(8))))


    def test_reads_release_the_gil(self) -> None:
        # No other thread can force this one to release the GIL; only the reads themselves release it.
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e6)
        try:
            dump = bigiron.open(DUMPS[0], cache=1 << 20)
            frames = self.frames(dump, 2000)
            begun, done = threading.Event(), threading.Event()

            def other() -> None:
                begun.wait()
                done.set()

            thread = threading.Thread(target=other)
            thread.start()
            begun.set()
            while_reading = False
            for frame in frames:
                dump.read(frame * dump.page_size, dump.page_size, physical=True)
                while_reading = while_reading or done.is_set()
            thread.join()
            self.assertTrue(while_reading)
        finally:
            sys.setswitchinterval(before)


class Uses(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.dump = bigiron.open(DUMPS[0])

    def test_pages_have_the_class_of_their_use_in_the_guest(self) -> None:
        made = {"shm": "cache", "tmpfs": "cache", "cache_clean": "cache", "cache_dirty": "cache"}
        made |= {"cache_private_clean": "cache_private", "cache_private_dirty": "cache_private"}
        found: dict[int, bigiron.PageRun] = {}
        last = 0
        for run in self.dump.page_runs():
            self.assertGreaterEqual(run.frame, last)
            last = run.frame + run.count
            found |= dict.fromkeys(range(run.frame, last), run)
        kinds = set()
        for line in PAGES.read_text().splitlines():
            kind, frames = line.split()
            first, _, end = frames.partition("-")
            kinds.add(kind)
            for frame in range(int(first), int(end or first) + 1):
                self.assertEqual(found[frame].page_class, made.get(kind, "user"), f"{kind}, page frame {frame}")
                # Level 31 excludes all of these.
                self.assertFalse(found[frame].in_dump)
        self.assertGreater(len(kinds), 10)
        for frame, run in list(found.items())[::37]:
            if run.in_dump:
                self.dump.pages(frame)
            else:
                with self.assertRaises(bigiron.FaultError):
                    self.dump.pages(frame)

    def test_tasks_have_the_addresses_of_the_kernel(self) -> None:
        tasks = {task.pid: task for task in self.dump.tasks() if not task.idle}
        self.assertEqual(tasks[2].name, "kthreadd")
        self.assertTrue(tasks[2].kernel_thread and not tasks[1].kernel_thread)
        for task in tasks.values():
            struct = self.dump.read_value(f"{task.address:x}", "task_struct", depth=1).value
            self.assertEqual((struct["pid"], struct["comm"]), (task.pid, task.name))

    def test_values_are_the_bytes_in_memory(self) -> None:
        names = self.dump.read_value("init_uts_ns.name", "uts_namespace").value
        self.assertEqual(names["release"], self.dump.release)
        head = self.dump.read_value("init_task.tasks")
        self.assertEqual(head.type, "struct list_head")
        self.assertEqual(head.value["next"], self.dump.read_int(head.address))
        with self.assertRaises(bigiron.UnknownNameError):
            self.dump.read_value("init_task.no_such_member")

    def test_slab_caches_have_the_reported_sizes(self) -> None:
        caches = {cache["name"]: cache for cache in self.dump.slab_caches()}
        for name, struct in (("dentry", "dentry"), ("radix_tree_node", "xa_node")):
            self.assertEqual(caches[name]["object_size"], self.dump.type(struct)["size"])
        self.assertGreaterEqual(caches["task_struct"]["in_use"], len(self.dump.tasks()) - 2)
        self.assertIn("users", self.dump.memory_use())


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.dump = bigiron.open(DUMPS[0])

    def test_vmcoreinfo_and_symbols_agree(self) -> None:
        keys = [key for key in self.dump.vmcoreinfo if key.startswith("SYMBOL(")]
        self.assertGreater(len(keys), 10)
        for key in ("init_uts_ns", "_stext", "prb"):
            expected = int(self.dump.vmcoreinfo[f"SYMBOL({key})"], 16)
            symbol = self.dump.symbol(key)
            self.assertEqual(symbol.address, expected)
        at = self.dump.symbol_at(self.dump.symbol("schedule").address + 5)
        assert at is not None
        self.assertEqual(str(at), "schedule+0x5")
        self.assertGreater(sum(1 for _ in self.dump.symbols()), 50_000)

    def test_types_agree_with_vmcoreinfo(self) -> None:
        page = self.dump.type("struct page")
        self.assertEqual(page["size"], int(self.dump.vmcoreinfo["SIZE(page)"]))
        offsets = {field.get("name"): field["offset"] for field in page["members"]}
        self.assertEqual(offsets["flags"], int(self.dump.vmcoreinfo["OFFSET(page.flags)"]))

    def test_unknown_names_raise_an_error(self) -> None:
        with self.assertRaisesRegex(bigiron.UnknownNameError, "no_such_thing"):
            self.dump.symbol("no_such_thing")
        with self.assertRaisesRegex(bigiron.UnknownNameError, "no_such_thing"):
            self.dump.type("no_such_thing")

    def test_banner_contains_the_release(self) -> None:
        banner = self.dump.read_string(self.dump.symbol("linux_banner").address)
        self.assertIn(f"Linux version {self.dump.release} ", banner)
        self.assertEqual(self.dump.info["kernel"]["release"], self.dump.release)


class Log(unittest.TestCase):
    def test_log_equals_that_of_the_program(self) -> None:
        said = subprocess.run([PROGRAM, "dmesg", DUMPS[0]], capture_output=True, check=True, text=True, errors="replace")
        records = bigiron.open(DUMPS[0]).dmesg()
        # Continuation lines of a record are indented by the width of the time.
        lines = [re.sub(r"^(\[ *[0-9.]+\] | {15})", "", line) for line in said.stdout.splitlines()]
        self.assertGreater(len(records), 100)
        self.assertEqual([line for record in records for line in record.text.split("\n")], lines)
        times = [re.match(r"\[ *([0-9.]+)\]", line) for line in said.stdout.splitlines()]
        expected = [float(time[1]) for time in times if time]
        for record, seconds in zip(records, expected, strict=True):
            self.assertAlmostEqual(record.time or 0, seconds, delta=1e-6)


class Drgn(unittest.TestCase):
    def test_drgn_reads_dumps_of_all_formats(self) -> None:
        expected = theirs()
        for path in DUMPS:
            dump = bigiron.open(path)
            program = bigiron.drgn(dump)
            self.assertEqual(program["UTS_RELEASE"].string_().decode(), dump.release)
            for name in ("linux_banner", "init_task"):
                address = dump.symbol(name).address
                self.assertEqual(program.read(address, 256), expected.read(address, 256))
            with self.assertRaises(drgn.FaultError):
                program.read(0x1000, 8)


class Hostile(unittest.TestCase):
    def test_invalid_dump_raises_an_error(self) -> None:
        with self.assertRaises(bigiron.Error):
            bigiron.open(__file__)
        with self.assertRaises(OSError):
            bigiron.open("/nonexistent/vmcore")
        with self.assertRaises((bigiron.Error, OSError)):
            bigiron.open([])

    def test_truncated_dump_lacks_pages_or_raises_an_error(self) -> None:
        whole = Path(DUMPS[0]).read_bytes()
        for share in (0.01, 0.3, 0.9):
            cut = Path(DUMPS[0] + ".cut")
            cut.write_bytes(whole[: int(len(whole) * share)])
            try:
                dump = bigiron.open(cut)
            except bigiron.Error:
                continue
            finally:
                cut.unlink()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for frame in range(0, dump.end_frame, 101):
                    try:
                        dump.pages(frame)
                    except bigiron.Error:
                        pass

    def test_memory_out_of_proportion_raises_an_error(self) -> None:
        # A core with 2 GiB of headers, in some KiB of bzip2.
        stream, streams = 16 << 20, 128
        head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHI3QI6H", 4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
        head += struct.pack("<2I6Q", 1, 0, stream * streams, 0, 0, 4096, 4096, 0)
        with tempfile.TemporaryDirectory() as home:
            bomb = Path(home, "bomb")
            bomb.write_bytes(
                bz2.compress(head.ljust(stream, b"\0")) + bz2.compress(bytes(stream)) * (streams - 1),
            )
            with self.assertRaisesRegex(bigiron.Error, "memory"):
                bigiron.open(bomb)
            bigiron.set_memory_limit(16 << 20)
            try:
                with self.assertRaisesRegex(bigiron.Error, "set_memory_limit"):
                    bigiron.open(bomb)
            finally:
                bigiron.set_memory_limit(None)
        self.assertTrue(bigiron.open(DUMPS[0]).symbol("linux_banner").address)

    def test_excessive_size_raises_fault_error(self) -> None:
        dump = bigiron.open(DUMPS[0])
        address = dump.symbol("linux_banner").address
        with self.assertRaises(bigiron.FaultError):
            dump.read(address, sys.maxsize)


if __name__ == "__main__":
    unittest.main()
