"""The smallest initramfs of a capture kernel, by packaging/capture/make-initramfs."""

import shutil
from pathlib import Path

from . import tools
from .kernels import Kernel

SCRIPT = Path(__file__).resolve().parent.parent.parent / "packaging" / "capture" / "make-initramfs"


def build(kernel: Kernel, production: bytes, options: str, program: Path, work: Path) -> bytes:
    """Returns the image for a kernel, with the settings of a machine whose dumps go to /dev/pmem0 with these options of
    `bigiron dump`."""
    tools.need("cpio", "depmod")
    root, image = work / "root", work / "capture.img"
    shutil.copytree(kernel.modules, root / "lib" / "modules" / kernel.release)
    tools.run([tools.find("depmod") or "depmod", "-b", root, kernel.release])
    settings, boot = root / "etc" / "default", root / "boot"
    settings.mkdir(parents=True)
    (settings / "bigiron").write_text(f'CAPTURE_OPTIONS="{options}"\n')
    (settings / "bigiron-ram-dump").write_text("DEVICE=/dev/pmem0\n")
    boot.mkdir()
    shutil.copy(kernel.vmlinuz, boot / f"vmlinuz-{kernel.release}")
    (boot / f"initrd.img-{kernel.release}").write_bytes(production)
    tools.run([
        "sh", SCRIPT, "-k", kernel.release, "-r", root, "-b", tools.static_busybox(), "-p", program, image,
    ])  # fmt: skip
    shutil.rmtree(root)
    return image.read_bytes()
