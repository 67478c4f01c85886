"""Dumps of every architecture, in the package and in drgn through the package.

BIGIRON_SYNTH is the program synth_core, which makes the core of a machine from a text and lists what its kernel can
address, BIGIRON_PROGRAM is the program, and BIGIRON_ARM64 is the path of the shipped part of an arm64 vmcore.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

import bigiron
import drgn

SYNTH = os.environ["BIGIRON_SYNTH"]
PROGRAM = os.environ["BIGIRON_PROGRAM"]
ARM64 = os.environ["BIGIRON_ARM64"]

LITTLE = drgn.PlatformFlags.IS_64_BIT | drgn.PlatformFlags.IS_LITTLE_ENDIAN
BIG = drgn.PlatformFlags.IS_64_BIT
RAM = 64 << 20


@dataclass(frozen=True)
class Machine:
    text: str
    """The words after `arch`."""
    machine: str
    architecture: drgn.Architecture
    flags: drgn.PlatformFlags
    page_shift: int
    drgn_translates: bool
    """True if drgn itself translates the kernel's addresses in an ELF core."""
    start: int = 0
    """Where RAM begins."""


MACHINES = [
    Machine("x86_64", "x86_64", drgn.Architecture.X86_64, LITTLE, 12, True),
    Machine("arm64 bits=52", "aarch64", drgn.Architecture.AARCH64, LITTLE, 12, True, 1 << 30),
    Machine("arm64 pages=16k", "aarch64", drgn.Architecture.AARCH64, LITTLE, 14, True, 1 << 30),
    Machine("arm64 pages=64k bits=52", "aarch64", drgn.Architecture.AARCH64, LITTLE, 16, True, 1 << 30),
    Machine("ppc64le", "ppc64le", drgn.Architecture.PPC64, LITTLE, 16, True),
    Machine("ppc64le pages=4k", "ppc64le", drgn.Architecture.PPC64, LITTLE, 12, True),
    Machine("ppc64le mmu=hash", "ppc64le", drgn.Architecture.PPC64, LITTLE, 16, False),
    Machine("ppc64", "ppc64", drgn.Architecture.PPC64, BIG, 16, True),
    Machine("s390x", "s390x", drgn.Architecture.S390X, BIG, 12, True),
    Machine("riscv64", "riscv64", drgn.Architecture.RISCV64, LITTLE, 12, False, 2 << 30),
    Machine("riscv64 bits=57", "riscv64", drgn.Architecture.RISCV64, LITTLE, 12, False, 2 << 30),
    Machine("loongarch64", "loongarch64", drgn.Architecture.LOONGARCH64, LITTLE, 14, False),
]


@dataclass(frozen=True)
class Mapping:
    virtual: int
    physical: int
    size: int


@dataclass(frozen=True)
class Files:
    core: Path
    """An ELF core."""
    kdump: Path
    """A kdump-compressed dump of it, with all pages."""
    elf: Path
    """An ELF dump, of a core whose headers have no virtual addresses."""
    mappings: list[Mapping]


def make(machine: Machine, home: Path) -> Files:
    """Makes dumps of a machine with 64 MiB of RAM and a few pages of some classes."""
    first = machine.start >> machine.page_shift
    last = first + (RAM >> machine.page_shift) - 1
    text = (
        ("" if machine.text == "x86_64" else f"arch {machine.text}\n")
        + f"kernel 6.12 vmalloc=3\nram {first}-{last}\n"
        + f"pages {first + 0x200} free order=5; {first + 0x240} cache n=16\n"
        + f"pages {first + 0x280} anon n=70; {first + 0x300} slab order=2 n=3\n"
    )
    core, kdump, table = home / "core", home / "kdump", home / "table"
    subprocess.run([SYNTH, "--mappings", table, core], input=text.encode(), check=True, stdout=subprocess.DEVNULL)
    subprocess.run([PROGRAM, "dump", "-q", "-d", "0", core, kdump], check=True)
    plain, elf = home / "plain", home / "elf"
    subprocess.run([SYNTH, "--physical", plain], input=text.encode(), check=True)
    subprocess.run([PROGRAM, "dump", "-q", "-f", "elf", "-d", "31", plain, elf], check=True)
    mappings = [Mapping(*(int(word, 16) for word in line.split())) for line in table.read_text().splitlines()]
    return Files(core, kdump, elf, mappings)


def of_core(path: Path) -> drgn.Program:
    """Returns a drgn program that reads an ELF core by itself."""
    program = drgn.Program()
    program.set_core_dump(path)
    return program


class Architectures(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.made = []
        for number, machine in enumerate(MACHINES):
            directory = Path(home.name, str(number))
            directory.mkdir()
            cls.made.append((machine, make(machine, directory)))

    def test_platform_of_a_program_is_that_of_the_dump(self) -> None:
        for machine, files in self.made:
            for path in (files.core, files.kdump):
                with self.subTest(machine=machine.text, dump=path.name):
                    dump = bigiron.open(path)
                    self.assertEqual(dump.machine, machine.machine)
                    self.assertEqual(dump.page_size, 1 << machine.page_shift)
                    self.assertEqual(dump.byte_order, "big" if machine.flags == BIG else "little")
                    program = bigiron.drgn(dump)
                    assert program.platform is not None
                    self.assertEqual(program.platform.arch, machine.architecture)
                    self.assertEqual(program.platform.flags, machine.flags)
                    self.assertEqual(program["UTS_RELEASE"].string_().decode(), dump.release)
                    self.assertEqual(program["PAGE_SHIFT"].value_(), machine.page_shift)
                    # An ELF core names its platform, which drgn finds by itself.
                    self.assertEqual(program.platform, of_core(files.core).platform)

    def test_memory_is_that_of_the_core(self) -> None:
        for machine, files in self.made:
            with self.subTest(machine=machine.text):
                expected, dump = of_core(files.core), bigiron.open(files.kdump)
                program = bigiron.drgn(dump)
                first = machine.start >> machine.page_shift
                for frame in range(first, first + (RAM >> machine.page_shift), 37):
                    address = frame << machine.page_shift
                    page = expected.read(address, dump.page_size, physical=True)
                    self.assertEqual(bytes(dump.pages(frame)), page)
                    self.assertEqual(program.read(address, dump.page_size, physical=True), page)
                    word = expected.read_u64(address, physical=True)
                    self.assertEqual(program.read_u64(address, physical=True), word)
                    self.assertEqual(dump.read_int(address, physical=True), word)

    def test_kernel_addresses_lead_to_the_pages_that_the_machine_maps(self) -> None:
        for machine, files in self.made:
            with self.subTest(machine=machine.text):
                expected, dump = of_core(files.core), bigiron.open(files.kdump)
                program = bigiron.drgn(dump)
                self.assertGreater(len(files.mappings), 4)
                for mapping in files.mappings:
                    for offset in (0, mapping.size - 8):
                        address, physical = mapping.virtual + offset, mapping.physical + offset
                        word = expected.read_u64(physical, physical=True)
                        self.assertEqual(dump.translate(address), physical)
                        self.assertEqual(dump.read_int(address), word)
                        self.assertEqual(program.read_u64(address), word)
                        if machine.drgn_translates:
                            self.assertEqual(expected.read_u64(address), word)
                with self.assertRaises(drgn.FaultError):
                    program.read(1 << 62, 8)

    def test_drgn_itself_reads_the_image_in_an_elf_dump(self) -> None:
        for machine, files in self.made:
            # drgn refuses the addresses of the hash MMU.
            if "mmu=hash" in machine.text:
                continue
            with self.subTest(machine=machine.text):
                dump = bigiron.open(files.elf)
                start = int(dump.vmcoreinfo["SYMBOL(_stext)"], 16)
                image = next(mapping for mapping in files.mappings if 0 <= start - mapping.virtual < mapping.size)
                physical = image.physical + start - image.virtual
                expected = of_core(files.core).read(physical, 4096, physical=True)
                self.assertEqual(of_core(files.elf).read(start, 4096), expected)


class Arm64(unittest.TestCase):
    """A part of a real vmcore: addresses of 52 bits (LPA2)."""

    def test_kernel_is_read_as_by_drgn(self) -> None:
        expected, dump = of_core(Path(ARM64)), bigiron.open(ARM64)
        program = bigiron.drgn(dump)
        self.assertEqual(program.platform, expected.platform)
        banner = dump.symbol("linux_banner").address
        self.assertTrue(dump.read_string(banner).startswith(f"Linux version {dump.release} "))
        for address in (banner, dump.symbol("init_task").address):
            self.assertEqual(program.read(address, 64), expected.read(address, 64))

    def test_tasks_of_the_dump_are_those_of_its_memory(self) -> None:
        dump = bigiron.open(ARM64)
        tasks = {task.pid: task for task in dump.tasks() if not task.idle}
        self.assertEqual((tasks[1].name, tasks[2].name), ("init", "kthreadd"))
        for pid in (1, 2):
            value = dump.read_value(f"{tasks[pid].address:x}", "task_struct", depth=1).value
            self.assertEqual((value["pid"], value["comm"]), (pid, tasks[pid].name))


if __name__ == "__main__":
    unittest.main()
