"""Plug-in of sos 4: summaries of the newest crash dumps, and whether the next crash will leave one."""

import os
import shlex
from glob import escape, glob

from sos.report.plugins import DebianPlugin, Plugin, RedHatPlugin, SuSEPlugin, UbuntuPlugin

try:
    from sos.report.plugins import PluginOpt
except ImportError:
    # Before sos 4.2, options were tuples.
    def PluginOpt(name, default=None, desc="", val_type=None):
        return (name, desc, "fast", default)


# Where bigiron, kdump-tools and kdump-utils put dumps, below the directory of all.
DUMPS = ("vmdump.[0-9]*", "vmcore.[0-9]*", "*/dump.[0-9]*", "*/vmcore")
# A damaged dump must not keep sos waiting.
SECONDS = 120


class Bigiron(Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin, SuSEPlugin):
    """Crash dumps: why the kernel stopped. The dumps themselves are not collected."""

    short_desc = "Summaries of crash dumps"
    plugin_name = "bigiron"
    profiles = ("system", "debug")
    packages = ("bigiron",)
    commands = ("bigiron",)
    option_list = [
        PluginOpt("dumps", default=3, val_type=int, desc="number of dumps to summarise, the newest first"),
        PluginOpt("directory", default="/var/crash", val_type=str, desc="directory of the dumps"),
    ]

    def setup(self):
        directory = self.get_option("directory")
        self.add_copy_spec(["/etc/default/bigiron", "/etc/default/bigiron-ram-dump"])
        # Sizes of logs are limited by sos, which takes their ends.
        self.add_copy_spec([os.path.join(directory, name) for name in ("info.[0-9]*", "dmesg.[0-9]*", "report.[0-9]*")])
        self.add_cmd_output(["bigiron --version", "bigiron plan --no-estimate", "bigiron plan --no-estimate --json"])
        dumps = self.newest_dumps(directory)
        self.add_cmd_output("ls -lsR " + shlex.quote(directory))
        for dump in dumps[: int(self.get_option("dumps"))]:
            name = os.path.relpath(dump, directory).replace("/", "_")
            path = shlex.quote(dump)
            for suffix, command in {
                "info": f"bigiron info --timeout {SECONDS} {path}",
                "info.json": f"bigiron info --timeout {SECONDS} --json --backtrace --memory --modules {path}",
                "dmesg": f"bigiron dmesg --timeout {SECONDS} {path}",
            }.items():
                self.add_cmd_output(command, suggest_filename=f"{name}.{suffix}", timeout=SECONDS + 30)

    def newest_dumps(self, directory):
        """Returns the regular files that are dumps by their names, the newest first."""
        root = self.path_join(directory) if hasattr(self, "path_join") else self.join_sysroot(directory)
        found = {}
        for pattern in DUMPS:
            for path in glob(os.path.join(escape(root), pattern)):
                # A link may lead anywhere, and a pipe waits.
                if os.path.isfile(path) and not os.path.islink(path):
                    found[os.path.join(directory, os.path.relpath(path, root))] = os.stat(path).st_mtime
        return sorted(found, key=lambda path: (-found[path], path))
