"""Makes a kernel call address 0, by the necessary part of GDB's remote protocol.

QEMU implements the protocol (-gdb). Debian's kernels have no module that crashes on demand other than by panic(), so
this module simulates a stray pointer: an idle processor continues at address 0, in kernel mode.
"""

import re
import socket
from pathlib import Path

from .errors import LabError

# "g" returns the registers in the order of GDB's amd64 description: 16 general ones, then rip.
RIP = 16


class Stub:
    """A connection; the machine is stopped while it is open."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(300)
        self._socket.connect(str(path))
        self._received = b""

    def __enter__(self) -> "Stub":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _send(self, text: str) -> None:
        self._socket.sendall(f"${text}#{sum(text.encode()) % 256:02x}".encode())

    def _packet(self) -> str:
        """Returns the next packet."""
        while not (found := re.search(rb"\$([^#]*)#..", self._received, re.DOTALL)):
            piece = self._socket.recv(4096)
            if not piece:
                raise LabError("QEMU's gdb stub closed the connection")
            self._received += piece
        self._received = self._received[found.end() :]
        self._socket.sendall(b"+")
        return found[1].decode()

    def ask(self, text: str) -> str:
        """Sends one packet and returns the reply. Stop notifications (T…) may arrive at any time."""
        self._send(text)
        while (answer := self._packet()).startswith("T"):
            pass
        return answer

    def jump_to_zero(self) -> None:
        """Makes the first processor continue at address 0. Requires kernel mode: in user mode, the jump would only kill
        a program."""
        self.ask("Hg1")
        registers = bytes.fromhex(self.ask("g"))
        rip = int.from_bytes(registers[RIP * 8 : RIP * 8 + 8], "little")
        if rip < 1 << 63:
            raise LabError(f"the processor is in user mode, at {rip:#x}")
        # All registers at once: QEMU accepts "P" only from clients that have read its register description.
        if self.ask("G" + (registers[: RIP * 8] + bytes(8) + registers[RIP * 8 + 8 :]).hex()) != "OK":
            raise LabError("QEMU's gdb stub does not set the registers")
        self._send("c")
