"""The architectures of guests: Debian's name, QEMU's command line, the compiler of the guest's programs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """An architecture as Debian, QEMU and the compilers name it."""

    debian: str
    target: str  # of scripts/static --target, as Rust names it
    qemu: str
    options: tuple[str, ...]
    console: str
    compiler: str

    @property
    def is_native(self) -> bool:
        """True for the architecture of the machines that run the tests: KVM can run it, and apt lists its packages."""
        return self.debian == NATIVE


NATIVE = "amd64"

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
        ),
    )
}
