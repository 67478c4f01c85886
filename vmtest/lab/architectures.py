"""The architectures of guests: Debian's name, QEMU's command line, the compiler of the guest's programs."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Architecture:
    """An architecture as Debian, QEMU and the compilers name it."""

    debian: str
    target: str  # of scripts/static --target, as Rust names it
    qemu: str
    options: tuple[str, ...]
    console: str
    compiler: str
    devices: tuple[str, ...] = ("vmcoreinfo", "virtio-balloon-pci")
    byte_order: Literal["little", "big"] = "little"
    # The Debian release whose packages are taken, if not the one that is installed here.
    suite: str = ""
    # Ends of the names of Debian's kernels, in order of preference.
    flavours: tuple[str, ...] = ()
    # Modules in loading order that the kernels of other architectures have built in.
    modules: tuple[str, ...] = ()

    @property
    def kernels(self) -> tuple[str, ...]:
        """Returns the ends of the names of Debian's kernels, in order of preference."""
        return self.flavours or (f"cloud-{self.debian}",)

    @property
    def emulator(self) -> str:
        """Returns the name of QEMU's emulator of single programs, as the package qemu-user-static has it."""
        return f"qemu-{self.qemu.removeprefix('qemu-system-')}{'le' if self.debian == 'ppc64el' else ''}-static"

    @property
    def linux(self) -> str:
        """Returns the architecture as the kernel's Makefile names it."""
        return {"amd64": "x86", "ppc64el": "powerpc", "s390x": "s390", "riscv64": "riscv"}.get(self.debian, self.debian)

    @property
    def binutils(self) -> str:
        """Returns what the names of the programs of binutils begin with: CROSS_COMPILE of the kernel's Makefile."""
        return self.compiler.removesuffix("gcc")

    @property
    def is_native(self) -> bool:
        """True for the architecture of the machines that run the tests: KVM can run it, and apt lists its packages."""
        return self.debian == NATIVE


NATIVE = "amd64"

# ext4, and what it needs, in loading order.
EXT4 = ("crc32c_generic", "crc16", "mbcache", "jbd2", "ext4")

ARCHITECTURES = {
    architecture.debian: architecture
    for architecture in (
        Architecture("amd64", "x86_64", "qemu-system-x86_64", ("-machine", "q35"), "ttyS0", "gcc"),
        # Pointer authentication by QARMA5 makes emulation slow; pauth-impdef uses QEMU's own algorithm. The CPU `max`
        # has LPA2: kernels with 52-bit addresses and pages of 4 KiB have five levels.
        Architecture(
            "arm64",
            "aarch64",
            "qemu-system-aarch64",
            ("-machine", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"),
            "ttyAMA0",
            "aarch64-linux-gnu-gcc",
            modules=EXT4,
        ),
        # Mitigations that emulation cannot provide are off. The machine has no vmcoreinfo device.
        Architecture(
            "ppc64el",
            "powerpc64le",
            "qemu-system-ppc64",
            (
                "-machine", "pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off",
                "-cpu", "power9",
            ),
            "hvc0",
            "powerpc64le-linux-gnu-gcc",
            devices=("virtio-balloon-pci",),
            flavours=("powerpc64le-64k", "powerpc64le"),
            modules=EXT4,
        ),
        # The machine has no PCI and no vmcoreinfo device.
        Architecture(
            "s390x",
            "s390x",
            "qemu-system-s390x",
            ("-machine", "s390-ccw-virtio", "-cpu", "max"),
            "ttysclp0",
            "s390x-linux-gnu-gcc",
            devices=("virtio-balloon-ccw",),
            byte_order="big",
            flavours=("s390x",),
            modules=EXT4,
        ),
        # Debian 13 is the first release with riscv64. The machine has no vmcoreinfo device.
        Architecture(
            "riscv64",
            "riscv64",
            "qemu-system-riscv64",
            ("-machine", "virt", "-cpu", "rv64"),
            "ttyS0",
            "riscv64-linux-gnu-gcc",
            devices=("virtio-balloon-pci",),
            suite="trixie",
            flavours=("riscv64",),
            modules=EXT4,
        ),
    )
}
