#!/usr/bin/env python3
"""Judges whether drgn, with debug symbols, reads the same as `bigiron info --sys --requests --network`.

drgn finds disks by their class and requests by the hardware queues of each; bigiron finds both by the inodes of the
file system of block devices, and by the set of tags.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import drgn_dumps
from verdict import Verdict

DMI = {"vendor": "DMI_SYS_VENDOR", "product": "DMI_PRODUCT_NAME", "firmware version": "DMI_BIOS_VERSION"}
# Variables of the settings that the guests' command lines change, and one that is as it was.
SYSCTLS = {"kernel.panic": "panic_timeout", "kernel.panic_on_oops": "panic_on_oops", "vm.swappiness": "vm_swappiness"}
IN_FLIGHT = 1
UP = 1


def _requests(disk: Any) -> set[int]:
    """Returns the requests in flight of a disk, by the array of its hardware queues."""
    from drgn.helpers.linux.xarray import xa_for_each
    from drgn import cast

    queue = disk.queue
    queues = (cast("struct blk_mq_hw_ctx *", entry) for _, entry in xa_for_each(queue.hctx_table.address_of_()))
    found = set()
    for hardware in queues:
        for index in range(int(hardware.tags.nr_tags)):
            request = hardware.tags.static_rqs[index]
            if request and request.q == queue and int(request.state) == IN_FLIGHT:
                found.add(int(request))
    return found


def _devices(net: Any) -> Any:
    from drgn.helpers.linux import list_for_each_entry

    return list_for_each_entry("struct net_device", net.dev_base_head.address_of_(), "dev_list")


def _device(device: Any) -> tuple[str, int, int, bool]:
    return device.name.string_().decode(), int(device.ifindex), int(device.mtu), bool(int(device.flags) & UP)


def judge(vmlinux: Path, dump: Path, bigiron: Path) -> Verdict:
    """Compares one dump."""
    import drgn
    from drgn.helpers.linux import disk_name, for_each_disk, list_for_each_entry

    verdict = Verdict(f"system and block devices of {dump}")
    done = subprocess.run([bigiron, "info", "--sys", "--requests", "--network", "--json", dump], capture_output=True, check=True)
    ours = json.loads(done.stdout)
    system, queues = ours["system"], ours["requests"]
    program = drgn.Program()
    program.set_core_dump(str(dump))
    program.load_debug_info([str(vmlinux)])

    def same(what: str, found: object, expected: object) -> None:
        verdict.require(found == expected, f"{what}: bigiron says {found}, drgn {expected}")

    same("command line", system["command_line"], program["saved_command_line"].string_().decode().strip())
    same("hypervisor", f"X86_HYPER_{system['hypervisor'].upper()}", program["x86_hyper_type"].format_(type_name=False))
    same("load", system["load"], [int(load) / 2048 for load in program["avenrun"]])
    same("tainted", bool(system["taints"]), bool(int(program["tainted_mask"])))
    machine = dict(system["machine"])
    for ours_name, field in DMI.items():
        text = program["dmi_ident"][int(program.constant(field))]
        same(ours_name, machine.get(ours_name), text.string_().decode() if text else None)
    changed = {sysctl["name"]: sysctl for sysctl in system["sysctls"]}
    for name, variable in SYSCTLS.items():
        value = int(program[variable])
        told = changed.get(name)
        same(name, told["value"] if told else {"vm.swappiness": 60}.get(name, 0), value)
    nets = list_for_each_entry("struct net", program["net_namespace_list"].address_of_(), "list")
    devices = [sorted(_device(device) for device in _devices(net)) for net in nets]
    namespaces = [sorted((d["name"], d["index"], d["mtu"], d["up"]) for d in n["devices"]) for n in ours["network"]["namespaces"]]
    same("network devices", namespaces, devices)
    verdict.count("network devices", sum(map(len, devices)))
    # Disks without a queue of their own kind have no requests; loop and RAM disks may not have been opened.
    theirs = {disk_name(disk).decode(): _requests(disk) for disk in for_each_disk(program)}
    found = {queue["disk"]: {int(request["address"], 16) for request in queue["in_flight"]} for queue in queues}
    for name, requests in theirs.items():
        same(f"requests of {name}", found.get(name, set()), requests)
    verdict.count("disks", len(theirs))
    verdict.count("requests in flight", sum(len(requests) for requests in theirs.values()))
    return verdict


if __name__ == "__main__":
    sys.exit(drgn_dumps.main(__doc__, judge))
