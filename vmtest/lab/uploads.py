"""Dumps that a capture kernel uploads to object storage on the host."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from judge_objects import BUCKET
from tools import Bigiron
from verdict import Verdict

from .crash import NETWORK, Crashed, Plan
from .scenarios import whole_vmdump

# The host, as the guest sees it.
HOST = "10.0.2.2"
# The usual reservation, and the part of it that both processes of the upload may use.
RESERVED = "256M"
MOST_MEMORY_KIB = 160 << 10
# Where a program looks for the certificates of authorities.
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
# Parts that the server must have before the power is cut.
PARTS = 2


def url(key: str) -> str:
    """Name of an object."""
    return f"s3://{BUCKET}/{key}"


def _plan(endpoint: str, key: str, how: str, **more: Any) -> Plan:
    # The level 1 keeps page cache and shared memory, so that there are several parts.
    return Plan(
        "upload",
        ram_mib=768,
        crashkernel=RESERVED,
        cached_mib=96,
        modules=NETWORK,
        network=True,
        environment={"endpoint": endpoint, "object": url(key), "how": how},
        **more,
    )


def whole_plan(endpoint: str, key: str, authority: Path) -> Plan:
    """A dump that is uploaded over TLS."""
    return _plan(endpoint, key, "-d 1", files={AUTHORITIES: authority})


def cut_plan(endpoint: str, key: str, client: Any) -> Plan:
    """A machine whose power is cut when the server has some parts."""
    return _plan(endpoint, key, "-d 1 --write-limit 8M", during=_cut(client, key))


def _cut(client: Any, key: str) -> Callable[[Crashed], None]:
    asked = 0.0

    def during(crashed: Crashed) -> None:
        nonlocal asked
        if crashed.cut or crashed.seconds_since("dump") < 0 or time.monotonic() - asked < 0.2:
            return
        asked = time.monotonic()
        for upload in client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
            parts = client.list_parts(Bucket=BUCKET, Key=key, UploadId=upload["UploadId"]).get("Parts", [])
            if upload["Key"] == key and len(parts) >= PARTS:
                crashed.power_cut()

    return during


def judge_whole(crashed: Crashed, bigiron: Bigiron, client: Any, key: str) -> Verdict:
    """Judges the object, as boto3 fetches it, and what bigiron reads of it where it is."""
    fetched = crashed.work / "fetched"
    untrusted = crashed.ran("untrusted")
    verdict = Verdict("upload")
    verdict.require(untrusted.get("status") == 1, f"without certificates: exit status {untrusted.get('status')}")
    verdict.require(crashed.printed("no certificates of authorities"), "the error does not name the certificates")
    client.download_file(BUCKET, key, str(fetched))
    verdict.merge(whole_vmdump(crashed, bigiron, fetched))
    verdict.require(bigiron.verify(url(key)) == 0, "bigiron verify fails for the object")
    of_object, of_file = bigiron.info(url(key)), bigiron.info(fetched)
    for about in (of_object, of_file):
        about.pop("file", None)
    same = str(of_object).replace(url(key), str(fetched)) == str(of_file)
    verdict.require(same, f"bigiron info differs: {of_object}\n{of_file}")
    peaks = peaks_kib(crashed)
    verdict.require(len(peaks) == 2, f"peaks of {len(peaks)} processes, expected 2: {peaks}")
    verdict.require(sum(peaks) < MOST_MEMORY_KIB, f"peak memory {peaks} KiB, limit {MOST_MEMORY_KIB}")
    return verdict


def judge_cut(crashed: Crashed, bigiron: Bigiron, key: str) -> Verdict:
    """Judges that another machine completes the upload, and reads the pages that it has."""
    verdict = Verdict("cut upload")
    verdict.require(crashed.cut, "the power was not cut")
    verdict.require(not crashed.ran("dump"), "the dump was complete before the power was cut")
    bigiron.text("save", "--complete", url(key))
    status, report = bigiron.verify_report(url(key))
    verdict.require(status == 1, f"bigiron verify exits with {status}, not 1")
    verdict.require(report.get("complete") is False, f"the object is not reported as cut: {report}")
    verdict.require(report.get("pages", 0) > 0, f"no page can be read: {report}")
    about = bigiron.info(url(key))
    release = about["kernel"]["release"]
    verdict.require(release.startswith(f"{crashed.plan.series}."), f"the cut dump is of {release}")
    return verdict


def peaks_kib(crashed: Crashed) -> list[int]:
    """The peak memory of each process, in KiB."""
    return [record["peak_kib"] for record in crashed.records if "peak_kib" in record]
