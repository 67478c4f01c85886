"""Reads dumps and logs from Azurite, Microsoft's emulator of Azure's blobs, and uploads to it.

    judge_azure.py BIGIRON AZURITE VMCORE DIRECTORY

azure-storage-blob puts the objects there and fetches them; Azurite checks the signatures.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from azure.storage.blob import BlobServiceClient, ContainerClient, generate_container_sas
from faulty_proxy import Proxy
from judge_objects import BUCKET, LOG, Bigiron, equal

# What Azurite is set up with; everybody knows it.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WRONG = "d3Jvbmc="
LOGS = 30


class Az(Bigiron):
    """The program, with the account of the emulator."""

    def __init__(self, program: str, home: Path, port: int) -> None:
        super().__init__(program, home, "")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AZURE_STORAGE_ACCOUNT": ACCOUNT,
            "AZURE_STORAGE_KEY": KEY,
            "AZURE_STORAGE_SERVICE_ENDPOINT": endpoint(port),
        }

    def secret(self, environment: dict[str, str | None]) -> str:
        return environment.get("AZURE_STORAGE_KEY") or KEY


def endpoint(port: int) -> str:
    return f"http://127.0.0.1:{port}/{ACCOUNT}"


def start(program: str, home: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Starts the server on a free port."""
    log = home / "azurite.log"
    command = [program, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--blobPort", "0", "--location", str(home / "blobs")]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out)
    for _ in range(300):
        found = log.read_text()
        if "listens on http://127.0.0.1:" in found:
            return server, int(found.split("http://127.0.0.1:")[1].split()[0].rstrip("/"))
        time.sleep(0.1)
    raise SystemExit(f"Azurite did not start: {found}")


def put_objects(bigiron: Az, vmcore: Path, home: Path, client: ContainerClient) -> list[Path]:
    files = [home / "vm dump.vmdump", home / "kdump"]
    bigiron.says("dump", "-q", "--format", "vmdump", vmcore, files[0])
    bigiron.says("dump", "-q", "-c", "zstd", vmcore, files[1])
    for file in files:
        with file.open("rb") as data:
            client.upload_blob(f"dumps/{file.name}", data)
    for number in range(LOGS):
        client.upload_blob(f"logs/host{number}/console.txt", LOG.format(number=number % 7).encode())
    return files


def check_reads(bigiron: Az, home: Path, files: list[Path]) -> None:
    """What is printed of an object is what is printed of its file."""
    for file in files:
        url = f"az://{BUCKET}/dumps/{file.name}"
        for command in (("info", "--json"), ("dmesg",), ("verify", "-q")):
            of_object, of_file = bigiron.run(*command, url), bigiron.run(*command, file)
            equal(of_object.returncode, of_file.returncode, f"status of {command} {url}: {of_object.stderr}")
            equal(of_object.stdout.replace(url, str(file)), of_file.stdout, f"{command} {url}")
    said = bigiron.says("triage", f"az://{BUCKET}/logs", "-o", home / "table")
    equal(f"{LOGS} rows, {LOGS} new" in said, True, said)
    row = json.loads(bigiron.says("triage", "row", f"az://{BUCKET}/dumps/kdump"))
    equal((row["complete"], row["path"]), (True, f"az://{BUCKET}/dumps/kdump"), "row")


def check_credentials(bigiron: Az, files: list[Path], port: int) -> None:
    """The account's key, a shared access signature, a connection string, and none that are right."""
    url, expected = f"az://{BUCKET}/dumps/kdump", bigiron.says("dmesg", files[1])
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    sas = generate_container_sas(ACCOUNT, BUCKET, account_key=KEY, permission="r", expiry=later)
    none = {"AZURE_STORAGE_KEY": None}
    equal(bigiron.says("dmesg", url, **none, AZURE_STORAGE_SAS_TOKEN=sas), expected, "dmesg by a signature")
    bigiron.fails("dump", "-q", files[1], f"az://{BUCKET}/refused", has=("403",), **none, AZURE_STORAGE_SAS_TOKEN=sas)
    words = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint(port)};"
    nothing = {"AZURE_STORAGE_ACCOUNT": None, "AZURE_STORAGE_SERVICE_ENDPOINT": None, **none}
    equal(bigiron.says("dmesg", url, **nothing, AZURE_STORAGE_CONNECTION_STRING=words), expected, "connection string")
    bigiron.fails("dmesg", url, has=("AZURE_STORAGE_ACCOUNT",), **nothing)
    bigiron.fails("dmesg", url, has=(url, "403"), AZURE_STORAGE_KEY=WRONG)
    nobody = {"AZURE_POD_IDENTITY_AUTHORITY_HOST": "http://127.0.0.1:9"}
    bigiron.fails("dmesg", url, has=("metadata service", "AZURE_STORAGE_KEY"), **none, **nobody)
    bigiron.fails("info", f"az://{BUCKET}/none", has=(f"az://{BUCKET}/none", "404", "BlobNotFound"))
    bigiron.fails("info", "az://nowhere/none", has=("az://nowhere/none", "404", "ContainerNotFound"))
    bigiron.fails("verify", "--against", f"s3://{BUCKET}/kdump", url, has=("AWS_ACCESS_KEY_ID",), AWS_EC2_METADATA_DISABLED="true")


def check_faults(bigiron: Az, proxy: Proxy, client: ContainerClient, home: Path, files: list[Path]) -> None:
    """Bad networks, and an object that is replaced."""
    url, through = f"az://{BUCKET}/dumps/kdump", {"AZURE_STORAGE_SERVICE_ENDPOINT": f"{proxy.url}/{ACCOUNT}"}
    proxy.queue(("status", (503, "ServerBusy")), ("reset", None), ("", None), ("cut", None))
    equal(bigiron.says("dmesg", url, **through), bigiron.says("dmesg", files[1]), "dmesg with faults")
    proxy.queue(("", None), ("slow", 0.01))
    reader = subprocess.Popen(
        [bigiron.program, "verify", "-q", url],
        env={**bigiron.environment, **through},
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(proxy.seen) < 2:
        time.sleep(0.01)
    with files[0].open("rb") as data:
        client.upload_blob("dumps/kdump", data, overwrite=True)
    said = reader.communicate(timeout=60)[1]
    equal((reader.returncode, "replaced while it was read" in said), (1, True), f"a replaced object: {said}")


def check_uploads(bigiron: Az, proxy: Proxy, client: ContainerClient, home: Path, vmcore: Path) -> None:
    """Uploads, also with lost answers, of several blocks, and of names that are taken."""
    url, through = f"az://{BUCKET}/uploads/vmcore", {"AZURE_STORAGE_SERVICE_ENDPOINT": f"{proxy.url}/{ACCOUNT}"}
    bigiron.says("dump", "-q", vmcore, url)
    (home / "fetched").write_bytes(client.download_blob("uploads/vmcore").readall())
    bigiron.says("verify", "-q", "--against", vmcore, home / "fetched")
    bigiron.fails("dump", "-q", vmcore, url, has=(url, "already"))
    proxy.queue(("", None), ("lost", None), ("status", (500, "InternalError")), *[("", None)] * 2, ("lost", None))
    bigiron.says("dump", "-q", "-f", "elf", "-d", "0", vmcore, f"{url}.elf", **through)
    stored = client.download_blob("uploads/vmcore.elf").readall()
    (home / "elf").write_bytes(stored)
    bigiron.says("verify", "-q", "--against", vmcore, home / "elf")
    blocks = client.get_blob_client("uploads/vmcore.elf").get_block_list()[0]
    equal(len(blocks) > 1, True, f"{len(blocks)} blocks of {len(stored)} bytes")
    # The answer to the completion is lost: the second one says that there is such a blob.
    count = len(blocks) + 1
    for name, overwrite in (("lost", ()), ("lost", ("--overwrite",))):
        proxy.queue(*[("", None)] * (count if overwrite == () else count - 1), ("lost", None))
        bigiron.says("dump", "-q", *overwrite, "-f", "elf", "-d", "0", vmcore, f"az://{BUCKET}/uploads/{name}", **through)
        equal(len(proxy.faults), 0, "the lost answer to a completion")
    # Another one takes the name meanwhile.
    proxy.queue(*[("", None)] * 2, ("slow", 0.1))
    raced = f"az://{BUCKET}/uploads/raced"
    dumping = subprocess.Popen(
        [bigiron.program, "dump", "-q", "--write-limit", "15M", vmcore, raced],
        env={**bigiron.environment, **through},
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.5)
    client.upload_blob("uploads/raced", b"another")
    said = dumping.communicate(timeout=60)[1]
    equal((dumping.returncode, "already" in said), (1, True), f"a race: {said}")
    equal(client.download_blob("uploads/raced").readall(), b"another", "the winner of a race")


def check_killed(bigiron: Az, client: ContainerClient, vmcore: Path) -> None:
    """What a killed dump has left becomes a dump that is cut."""
    url = f"az://{BUCKET}/uploads/killed"
    bigiron.fails("save", "--complete", url, has=(url, "no upload of this name"))
    command = [bigiron.program, "dump", "-q", "-f", "elf", "-d", "0", "--write-limit", "25M", vmcore, url]
    dumping = subprocess.Popen(command, env=bigiron.environment)
    time.sleep(1.5)
    dumping.kill()
    dumping.wait()
    for _ in range(100):
        done = bigiron.run("save", "--complete", url)
        if done.returncode == 0:
            break
        time.sleep(0.1)
    equal("of the upload of 20" in done.stdout, True, done.stdout + done.stderr)
    read = bigiron.run("verify", url)
    equal(read.returncode == 1 and "pages read" in read.stdout, True, f"verify: {read.stdout}{read.stderr}")
    size = client.get_blob_client("uploads/killed").get_blob_properties().size
    equal(0 < size < vmcore.stat().st_size, True, f"{size} bytes of a dump that was killed")


def main() -> None:
    program, azurite, vmcore, home = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    server, port = start(azurite, home)
    try:
        service = BlobServiceClient(endpoint(port), credential={"account_name": ACCOUNT, "account_key": KEY})
        client = service.create_container(BUCKET)
        bigiron, proxy = Az(program, home, port), Proxy(port)
        files = put_objects(bigiron, vmcore, home, client)
        check_reads(bigiron, home, files)
        check_credentials(bigiron, files, port)
        check_faults(bigiron, proxy, client, home, files)
        check_uploads(bigiron, proxy, client, home, vmcore)
        check_killed(bigiron, client, vmcore)
    finally:
        server.kill()
    print("Azurite: done")


if __name__ == "__main__":
    main()
