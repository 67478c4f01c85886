"""Makes tables with `bigiron triage`, and reads them with DuckDB, pandas and pyarrow.

    judge_fleet.py BIGIRON VMCORE DIRECTORY

The rows that they find are those that `bigiron triage row` prints.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pyarrow.parquet

LOG = """\
Nov 24 16:33:32 {host} kernel: [   81.000000] BUG: kernel NULL pointer dereference, address: 0000000000000008
Nov 24 16:33:32 {host} kernel: [   81.000000] CPU: 1 PID: 87 Comm: sh Not tainted 6.1.0-{minor} #1
Nov 24 16:33:32 {host} kernel: [   81.000000] RIP: 0010:{function}+0x1/0x2 [faulty]
Nov 24 16:33:32 {host} kernel: [   81.000000] Call Trace:
Nov 24 16:33:32 {host} kernel: [   81.000000]  caller_{function}+0x1/0x2
Nov 24 16:33:32 {host} kernel: [   81.000000] Modules linked in: faulty(O) häßlich
"""
TIMES = ("modified", "crash_time")
SHARDS = 3


def fleet(directory: Path, vmcore: Path) -> None:
    """Logs of several hosts and kernels, a dump, and what is neither."""
    for number in range(60):
        path = directory / f"host{number % 20}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LOG.format(host=f"host{number % 20}", minor=number % 4, function=f"function_{'abc'[number % 3]}"))
    (directory / "quiet.txt").write_text("[    1.000000] nothing\n")
    (directory / "vmcore").symlink_to(vmcore)
    (directory / "bad").write_bytes(bytes(4096))


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]], name: str) -> None:
    found = sorted(found, key=lambda row: row["path"])
    if len(found) != len(expected):
        raise SystemExit(f"{name}: {len(found)} rows, expected {len(expected)}")
    for row, wanted in zip(found, expected, strict=True):
        for column, value in wanted.items():
            if row[column] != value:
                raise SystemExit(f"{name}: {row['path']}: {column} is {row[column]!r}, expected {value!r}")
    print(f"{name}: {len(found)} rows as expected")


def main() -> None:
    bigiron, vmcore, home = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    sources, output = home / "fleet", home / "crashes"
    fleet(sources, vmcore)
    # A link is only read if it is named.
    arguments = [sources, sources / "vmcore", "-o", output]
    for shard in range(SHARDS):
        subprocess.run([bigiron, "triage", *arguments, "--shard", f"{shard}/{SHARDS}"], check=True)
    paths = sorted(str(path) for path in sources.rglob("*") if path.is_file())
    expected = []
    for path in paths:
        said = subprocess.run([bigiron, "triage", "row", path], stdout=subprocess.PIPE, check=False)
        if said.returncode == 0:
            row = json.loads(said.stdout)
            # Known by the run that makes the table.
            expected.append({name: value for name, value in row.items() if name not in ("bytes", "modified")})
        else:
            expected.append({"path": path, "kind": "unknown", "title": None})

    files = f"{output}/*.parquet"
    table = pyarrow.parquet.read_table(output)
    for name in TIMES:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table[name].cast("int64"))
    same(table.to_pylist(), expected, "pyarrow")

    connection = duckdb.connect()
    columns = ", ".join(f"epoch_ms({name}) AS {name}" for name in TIMES)
    query = f"SELECT * REPLACE ({columns}) FROM read_parquet('{files}')"
    answer = connection.execute(query)
    names = [column[0] for column in answer.description]
    same([dict(zip(names, row, strict=True)) for row in answer.fetchall()], expected, "DuckDB")

    frame = pandas.read_parquet(output)
    counts = frame.groupby("title")["host"].nunique().to_dict()
    query = f"SELECT title, count(DISTINCT host) FROM '{files}' WHERE title IS NOT NULL GROUP BY title"
    grouped = dict(connection.execute(query).fetchall())
    # Each of the three functions fails on all hosts; the dump has no crash.
    if counts != grouped or list(counts.values()) != [20, 20, 20]:
        raise SystemExit(f"pandas counts {counts}, DuckDB {grouped}")
    print(f"pandas and DuckDB: machines by title: {counts}")


if __name__ == "__main__":
    main()
