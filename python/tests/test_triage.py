"""Tests of `bigiron.triage`: on this machine, and on a Ray cluster of two nodes, one of which is killed.

The cluster is only tested where Ray is installed.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

from bigiron import triage

PROGRAM = Path(os.environ["BIGIRON_PROGRAM"])
try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    ray = None  # type: ignore[assignment]

REPORT = """\
[   81.000000] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   81.000000] CPU: 1 PID: 87 Comm: sh Not tainted 6.1.0 #1
[   81.000000] RIP: 0010:function_{bug}+0x1/0x2
[   81.000000] Call Trace:
[   81.000000]  caller+0x1/0x2
"""
LOGS = 120
SHARDS = 12


def make_logs(directory: Path) -> None:
    for number in range(LOGS):
        directory.joinpath(f"{number}.txt").write_text(REPORT.format(bug=chr(ord("a") + number % 7)))


def tables(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class Local(unittest.TestCase):
    def setUp(self) -> None:
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = Path(home.name)
        self.logs = self.home / "logs"
        self.logs.mkdir()
        make_logs(self.logs)

    def test_processes_of_this_machine_make_the_table_once(self) -> None:
        missing = self.home / "none"
        sources = [self.logs, missing]
        found = triage.run(sources, self.home / "out", program=PROGRAM, jobs=2)
        self.assertEqual(found, triage.Summary(LOGS + 1, LOGS + 1, 0, 1))
        self.assertEqual(list(tables(self.home / "out")), ["crashes-00000-of-00001.parquet"])
        again = triage.run(sources, self.home / "out", program=PROGRAM)
        self.assertEqual(again, triage.Summary(LOGS + 1, 0, LOGS + 1, 1))

    def test_errors_name_their_cause(self) -> None:
        output = self.home / "file"
        output.write_text("")
        with self.assertRaisesRegex(triage.TriageError, "file: cannot make it"):
            triage.run([self.logs], output, program=PROGRAM)
        with self.assertRaises(ValueError):
            triage.run([self.logs], output, program=PROGRAM, shards=3)

    @unittest.skipIf(ray is None, "Ray is not installed")
    def test_cluster_that_loses_a_node_makes_the_same_table(self) -> None:
        expected = self.home / "expected"
        for shard in range(SHARDS):
            command = [str(PROGRAM), "triage", f"--output={expected}", "--files-from=-", f"--shard={shard}/{SHARDS}"]
            triage._one(command, f"{self.logs}\n")
        # The program, made slow, which says on which node it is by a file.
        begun = self.home / "begun"
        begun.mkdir()
        slow = self.home / "slow"
        slow.write_text(f'#!/bin/sh\ntouch {begun}/$$\nsleep 1\nexec {PROGRAM} "$@"\n')
        slow.chmod(0o755)
        cluster: Any = Cluster(initialize_head=True, connect=True, head_node_args={"num_cpus": 1})
        try:
            lost = cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            def kill() -> None:
                while len(list(begun.iterdir())) < 4:
                    time.sleep(0.05)
                cluster.remove_node(lost, allow_graceful=False)

            killer = threading.Thread(target=kill)
            killer.start()
            found = triage.run([self.logs], self.home / "out", program=slow, ray=True, shards=SHARDS)
            killer.join()
        finally:
            ray.shutdown()
            cluster.shutdown()
        self.assertEqual((found.rows, found.failed), (LOGS, 0))
        self.assertEqual(tables(self.home / "out"), tables(expected))


if __name__ == "__main__":
    unittest.main()
