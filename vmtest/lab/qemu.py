"""One virtual machine: command line, console and monitor (QMP)."""

import functools
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from . import tools
from .errors import LabError
from .architectures import ARCHITECTURES, NATIVE, Architecture

# Emulation with one thread for all processors. With one thread per processor, QEMU before 8.1 may execute stale code
# that another processor has just changed (its commit deba78709ae8): a guest whose clock becomes unstable patches
# sched_clock_cpu() and dies of an int3 there, more likely with more processors. A single thread also switches to the
# next processor when one waits by `pause`: 64 processors that wait for each other in stop_machine take milliseconds,
# instead of seconds with one thread each.
ONE_THREAD = "tcg,thread=single"

# A boot sector that enables XSAVE, executes xrstor, and writes 0x10 to port 0xf4, where the device isa-debug-exit ends
# QEMU with status 0x10 * 2 + 1. Every kernel executes xrstor. Inside a virtual machine, some hypervisors emulate the
# guest's instructions instead of running them; such a KVM cannot start a kernel, because its emulator
# (arch/x86/kvm/emulate.c) supports neither xrstor nor cmpxchg16b nor VEX-encoded instructions.
_BOOT_SECTOR = (
    b"\x31\xc0\x8e\xd8"  # xor ax, ax; mov ds, ax
    b"\x0f\x20\xe0\x66\x0d\x00\x02\x04\x00\x0f\x22\xe0"  # set OSFXSR and OSXSAVE in cr4
    b"\x66\x31\xd2\x66\x31\xc0\xbb\x00\x80"  # xor edx, edx; xor eax, eax; mov bx, 0x8000
    b"\x0f\xae\x2f"  # xrstor [bx]
    b"\xb0\x10\xe6\xf4\xf4"  # mov al, 0x10; out 0xf4, al; hlt
).ljust(510, b"\0") + b"\x55\xaa"
_KVM_GAVE_UP = b"KVM internal error"


@functools.cache
def kvm_works() -> bool:
    """Returns true if /dev/kvm runs a guest. Inside some virtual machines the device exists, but a guest never starts,
    or stops at an instruction that every kernel executes."""
    if not Path("/dev/kvm").exists():
        return False
    with tempfile.TemporaryDirectory() as directory:
        disk, errors = Path(directory) / "boot.img", Path(directory) / "errors"
        disk.write_bytes(_BOOT_SECTOR)
        command = [
            "qemu-system-x86_64", "-accel", "kvm", "-cpu", "max", "-m", "16", "-display", "none", "-nodefaults",
            "-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-drive", f"file={disk},format=raw",
        ]  # fmt: skip
        with open(errors, "wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as qemu:
            deadline = time.monotonic() + 10
            while qemu.poll() is None and time.monotonic() < deadline and _KVM_GAVE_UP not in errors.read_bytes():
                time.sleep(0.02)
            qemu.kill()
            return qemu.wait() == 0x21


def accelerator(levels: int) -> str:
    """Returns KVM if it works and, for five levels, this machine's processor supports them; otherwise emulation."""
    has_la57 = "la57" in Path("/proc/cpuinfo").read_text(errors="replace").split()
    return "kvm" if kvm_works() and (levels == 4 or has_la57) else "tcg"


class Machine:
    """A running QEMU, which ends with the `with` block."""

    def __init__(
        self,
        directory: Path,
        *,
        kernel: Path,
        initrd: Path,
        command_line: str,
        ram_mib: int,
        levels: int,
        disks: list[Path],
        timeout: float,
        accel: str,
        cpus: int | str = 2,
        processor: str | None = None,
        more: Sequence[str | Path] = (),
        reboots: bool = False,
        architecture: Architecture = ARCHITECTURES[NATIVE],
    ) -> None:
        self.console_file = directory / "console.log"
        self._socket_path = directory / "qmp"
        self._deadline = time.monotonic() + timeout
        self._command: list[str | Path] = [
            architecture.qemu, "-nodefaults", "-display", "none", *(() if reboots else ("-no-reboot",)),
            *architecture.options, "-accel", "tcg,thread=multi" if accel == "tcg" else accel,
            "-smp", str(cpus), "-m", f"{ram_mib}M", "-kernel", kernel, "-initrd", initrd,
            "-append", f"console={architecture.console} panic=-1 {command_line}",
            "-serial", f"file:{self.console_file}",
            "-qmp", f"unix:{self._socket_path},server=on,wait=off",
            *(word for device in architecture.devices for word in ("-device", device)),
        ]  # fmt: skip
        if architecture.is_native:
            self._command += ["-cpu", processor or ("max" if levels == 5 else "max,la57=off")]
        for disk in disks:
            self._command += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"]
        self._command += more

    def __enter__(self) -> "Machine":
        tools.need(str(self._command[0]))
        self.console_file.write_bytes(b"")
        errors = open(self.console_file.with_name("qemu.log"), "wb")
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        errors.close()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def console(self) -> str:
        return self.console_file.read_bytes().decode(errors="replace").replace("\r", "")

    def _fail(self, why: str) -> LabError:
        tail = "\n".join(self.console().splitlines()[-25:])
        printed = self.console_file.with_name("qemu.log").read_text(errors="replace").strip()
        return LabError(f"{why}\n{printed}\n--- end of the console ---\n{tail}")

    def _check_running(self) -> None:
        """Raises an error if KVM failed: QEMU then pauses the guest forever."""
        if _KVM_GAVE_UP in self.console_file.with_name("qemu.log").read_bytes():
            raise self._fail("KVM stopped the guest")

    def wait_for(self, text: str) -> None:
        """Waits until the guest has printed `text`."""
        while text not in self.console():
            self._check_running()
            if 'bigiron-vmtest: {"error"' in self.console():
                raise self._fail("the guest reports an error")
            if self._process.poll() is not None and text not in self.console():
                raise self._fail(f"QEMU ended (status {self._process.returncode}) before the guest printed {text!r}")
            if time.monotonic() > self._deadline:
                raise self._fail(f"the guest did not print {text!r} in time")
            time.sleep(0.1)

    def follow(self, seen: Callable[[str], None], tick: Callable[[], None]) -> None:
        """Passes each complete line of the console to `seen` as soon as it arrives, until the machine is off. Calls
        `tick` repeatedly."""
        done = 0
        while True:
            ended = self._process.poll() is not None
            text = self.console()
            *lines, _ = text[done:].split("\n")
            done += sum(len(line) + 1 for line in lines)
            for line in lines:
                seen(line)
            if ended:
                return
            tick()
            self._check_running()
            if time.monotonic() > self._deadline:
                raise self._fail("the guest did not power off in time")
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends QEMU at once, which simulates a power cut."""
        self._process.kill()
        self._process.wait()

    def wait_for_end(self) -> None:
        """Waits until the guest has powered itself off."""
        while self._process.poll() is None:
            self._check_running()
            if time.monotonic() > self._deadline:
                raise self._fail("the guest did not power off in time")
            time.sleep(0.1)

    def monitor(self, command: str, **arguments: object) -> object:
        """Runs one QMP command; a dump of 1 GiB takes some time."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(max(1.0, self._deadline - time.monotonic()))
            try:
                channel.connect(str(self._socket_path))
            except OSError as error:
                raise self._fail(f"QEMU has ended, or has no monitor for {command}: {error}") from error
            answers = channel.makefile("r")
            answers.readline()  # the greeting
            for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                channel.sendall(json.dumps(request).encode() + b"\n")
                answer = {}
                while "return" not in answer and "error" not in answer:  # events may arrive in between
                    line = answers.readline()
                    if not line:
                        raise self._fail(f"QEMU closed its monitor during {command}")
                    answer = json.loads(line)
            if "error" in answer:
                raise self._fail(f"{command}: {answer['error']['desc']}")
            return answer["return"]
