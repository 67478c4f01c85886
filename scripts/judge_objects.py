"""Reads dumps and logs from moto's S3 server with bigiron, as files and through a faulty proxy.

    judge_objects.py BIGIRON VMCORE DIRECTORY

boto3 puts the objects there; what bigiron prints of them is what it prints of the files.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import lzma
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from faulty_proxy import Proxy

LOG = """\
[   81.000000] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   81.000000] CPU: 1 PID: 87 Comm: sh Not tainted 6.1.0-{number} #1
[   81.000000] RIP: 0010:function_{number}+0x1/0x2 [faulty]
[   81.000000] Call Trace:
[   81.000000]  caller+0x1/0x2
[   81.000000] Modules linked in: faulty(O)
"""
BUCKET = "crashes"
# The logs are on the second page of a list and those behind it, after empty objects.
PAGE = 10
EMPTY = 12
LOGS = 30
REGION = "us-east-1"
CHECKS = 0


class Bigiron:
    """The program, with the credentials and the server of a test."""

    def __init__(self, program: str, home: Path, endpoint: str) -> None:
        self.program = program
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "AKIATEST",
            "AWS_SECRET_ACCESS_KEY": "the-secret-key",
            "AWS_REGION": REGION,
        }

    def run(self, *arguments: object, **environment: str | None) -> subprocess.CompletedProcess[str]:
        changed = {**self.environment, **environment}
        return subprocess.run(
            [self.program, *map(str, arguments)],
            env={name: value for name, value in changed.items() if value is not None},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def secret(self, environment: dict[str, str | None]) -> str:
        """What no message may tell."""
        return environment.get("AWS_SECRET_ACCESS_KEY") or self.environment["AWS_SECRET_ACCESS_KEY"]

    def says(self, *arguments: object, **environment: str | None) -> str:
        done = self.run(*arguments, **environment)
        if done.returncode:
            raise SystemExit(f"{arguments}: status {done.returncode}: {done.stderr}")
        return done.stdout

    def fails(self, *arguments: object, has: tuple[str, ...], status: int = 1, **environment: str | None) -> None:
        done = self.run(*arguments, **environment)
        said = done.stdout + done.stderr
        if done.returncode != status:
            raise SystemExit(f"{arguments}, {has}: status {done.returncode}, expected {status}: {said[:500]}")
        for text in has:
            if text not in said:
                raise SystemExit(f"{arguments}: {text!r} is not in: {said[:2000]}")
        if self.secret(environment) in said:
            raise SystemExit(f"{arguments}: tells a secret: {said}")


def equal(found: Any, expected: Any, name: str) -> None:
    global CHECKS
    CHECKS += 1
    if found != expected:
        raise SystemExit(f"{name}: {str(found)[:2000]}\nexpected {str(expected)[:2000]}")


def start_server(home: Path) -> tuple[subprocess.Popen[bytes], int, Any]:
    """Starts moto on a free port, and returns a client of it."""
    program = str(Path(sys.executable).parent / "moto_server")
    port_file = home / "moto.log"
    with port_file.open("wb") as log:
        command = [program, "-H", "127.0.0.1", "-p", "0"]
        environment = {**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE)}
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    for _ in range(300):
        text = port_file.read_text()
        if "http://127.0.0.1:" in text:
            port = int(text.split("http://127.0.0.1:")[1].split()[0])
            break
        time.sleep(0.1)
    else:
        raise SystemExit(f"moto's server did not start: {text}")
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name=REGION,
        aws_access_key_id="AKIATEST",
        aws_secret_access_key="the-secret-key",
        # The server joins the parts of a large upload while nothing is sent.
        config=Config(read_timeout=600),
    )
    for _ in range(100):
        try:
            client.create_bucket(Bucket=BUCKET)
            break
        except BotoCoreError:
            time.sleep(0.1)
    return server, port, client


def put_objects(bigiron: Bigiron, vmcore: Path, home: Path, client: Any) -> list[Path]:
    """Dumps in several formats, and logs."""
    files = [home / "vmcore", home / "vm dump.vmdump", home / "kdump", home / "flattened"]
    files[0].symlink_to(vmcore)
    bigiron.says("dump", "-q", "--format", "vmdump", vmcore, files[1])
    bigiron.says("dump", "-q", "-c", "zstd", vmcore, files[2])
    with files[3].open("wb") as flattened:
        subprocess.run([bigiron.program, "dump", "-q", "-c", "zstd", vmcore, "-"], stdout=flattened, check=True)
    parts = [home / "part1", home / "part2"]
    bigiron.says("dump", "-q", "-c", "zstd", "--split", ",".join(map(str, parts)), vmcore)
    for file in [*files, *parts]:
        client.upload_file(str(file), BUCKET, f"dumps/{file.name}")
    for number in range(EMPTY):
        client.put_object(Bucket=BUCKET, Key=f"logs/{number:04}")
    for number in range(LOGS):
        key = f"logs/host{number}/console.txt"
        client.put_object(Bucket=BUCKET, Key=key, Body=LOG.format(number=number % 7).encode())
    return files


def check_same(bigiron: Bigiron, files: list[Path], home: Path) -> None:
    """What is printed of an object is what is printed of its file."""
    commands = [("info",), ("info", "--json"), ("dmesg",), ("verify", "-q"), ("diagnose",), ("read", "init_task.comm")]
    for file in files:
        url = f"s3://{BUCKET}/dumps/{file.name}"
        for command in commands if file == files[2] else commands[:3]:
            of_file = bigiron.run(*command, file)
            of_object = bigiron.run(*command, url)
            equal(of_object.returncode, of_file.returncode, f"status of {command} {url}: {of_object.stderr}")
            equal(of_object.stdout.replace(url, str(file)), of_file.stdout, f"{command} {url}")
    bigiron.says("report", f"s3://{BUCKET}/dumps/kdump", "-o", home / "object.html")
    bigiron.says("report", files[2], "-o", home / "file.html")
    pages = [(home / name).read_text() for name in ("object.html", "file.html")]
    equal(pages[0].replace(f"s3://{BUCKET}/dumps/kdump", str(files[2])), pages[1], "report")
    parts = ",".join(f"s3://{BUCKET}/dumps/part{number}" for number in (1, 2))
    equal(bigiron.says("dmesg", *parts.split(",")), bigiron.says("dmesg", files[2]), "dmesg of parts")
    equal(bigiron.says("verify", "-q", "--against", files[0], f"s3://{BUCKET}/dumps/kdump"), "", "verify --against")
    row = json.loads(bigiron.says("triage", "row", parts))
    equal(row["complete"], True, "row of parts")


def check_triage(bigiron: Bigiron, home: Path, files: list[Path]) -> None:
    """A list of several pages, and rows as of files."""
    said = bigiron.says("triage", f"s3://{BUCKET}/logs", "-o", home / "logs")
    equal(f"{LOGS} rows, {LOGS} new" in said, True, said)
    said = bigiron.says("triage", f"s3://{BUCKET}/logs/", "-o", home / "logs")
    equal(f"0 new, {LOGS} done before" in said, True, said)
    for file in files:
        url = f"s3://{BUCKET}/dumps/{file.name}"
        row = json.loads(bigiron.says("triage", "row", url))
        fetched, requests = row.pop("bytes_fetched"), row.pop("requests")
        expected = json.loads(bigiron.says("triage", "row", file))
        equal([expected.pop("bytes_fetched"), expected.pop("requests")], [None, None], "cost of a file")
        equal(row, {**expected, "path": url}, f"row of {url}")
        print(f"{file.name}: {file.stat().st_size} bytes, {fetched} fetched by {requests} requests")


def check_given_credentials(bigiron: Bigiron, proxy: Proxy, home: Path, port: int) -> None:
    """Credentials of containers, and of a role for a token; moto has all of these services."""
    url = f"s3://{BUCKET}/logs/host0/console.txt"
    none = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_EC2_METADATA_DISABLED": "true"}
    path = "/latest/meta-data/iam/security-credentials/default-role"
    token, tokens = home / "token", {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "of the environment"}
    token.write_text("of-the-file\n")
    proxy.queue()
    bigiron.says("triage", "row", url, **none, **tokens, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{proxy.url}{path}")
    tokens["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = str(token)
    bigiron.says("triage", "row", url, **none, **tokens, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{proxy.url}{path}")
    shown = [headers.get("authorization") for _, asked, headers in proxy.seen if asked == path]
    equal(shown, ["of the environment", "of-the-file"], "tokens of a container")
    bigiron.fails("info", url, has=("loopback",), **none, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"http://192.0.2.1{path}")
    bigiron.fails("info", url, has=("404",), **none, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{proxy.url}/none/none/none")
    role = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/crashes"}
    proxy.queue()
    bigiron.says("triage", "row", url, **none, **role, AWS_ENDPOINT_URL_STS=proxy.url)
    equal([(method, asked) for method, asked, _ in proxy.seen], [("POST", "/")], "requests for a role")
    bigiron.fails("info", url, has=(str(home / "no"),), **none, **{**role, "AWS_WEB_IDENTITY_TOKEN_FILE": str(home / "no")})
    proxy.queue(("status", (400, "InvalidIdentityToken")))
    bigiron.fails("info", url, has=("crashes", "InvalidIdentityToken"), **none, **role, AWS_ENDPOINT_URL_STS=proxy.url)


def check_google(bigiron: Bigiron, proxy: Proxy, home: Path, vmcore: Path, files: list[Path]) -> None:
    """Names of Google's buckets, whose server speaks as this one does, except for a condition."""
    through = {"AWS_ENDPOINT_URL": proxy.url, "AWS_REGION": None}
    equal(bigiron.says("dmesg", f"gs://{BUCKET}/dumps/kdump", **through), bigiron.says("dmesg", files[2]), "dmesg of gs://")
    proxy.queue()
    bigiron.says("dump", "-q", vmcore, f"gs://{BUCKET}/google/vmcore", **through)
    conditions = [headers.get("if-none-match") for method, _, headers in proxy.seen if method == "POST"]
    equal(conditions, [None, None], "conditions that Google's server refuses")
    scopes = {headers["authorization"].split("/")[2] for _, _, headers in proxy.seen}
    equal(scopes, {"auto"}, "region of the signatures")
    bigiron.fails("dump", "-q", vmcore, f"gs://{BUCKET}/google/vmcore", has=("already",), **through)
    said = bigiron.says("triage", f"gs://{BUCKET}/google", "-o", home / "google", **through)
    equal("1 rows, 1 new" in said, True, said)
    none = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}
    bigiron.fails("info", f"gs://{BUCKET}/a", has=("HMAC key",), **none)


def check_credentials(bigiron: Bigiron, home: Path, port: int) -> None:
    """All ways to give credentials; moto takes any until it is told to check them."""
    url = f"s3://{BUCKET}/logs/host0/console.txt"
    none = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}
    (home / ".aws").mkdir()
    (home / ".aws/credentials").write_text("[ours]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = of-the-profile\n")
    (home / ".aws/config").write_text(f"[profile ours]\nregion = eu-west-3\nendpoint_url = http://127.0.0.1:{port}\n")
    bigiron.says("triage", "row", url, **none, AWS_PROFILE="ours", AWS_ENDPOINT_URL=None, AWS_REGION=None)
    machine = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{port}"}
    bigiron.says("triage", "row", url, **none, **machine)
    bigiron.fails("info", url, has=("AWS_ACCESS_KEY_ID", "AWS_EC2_METADATA_DISABLED"), **none, AWS_EC2_METADATA_DISABLED="true")
    bigiron.fails("info", url, has=("metadata service", "127.0.0.1:9"), **none, AWS_EC2_METADATA_SERVICE_ENDPOINT="http://127.0.0.1:9")
    bigiron.fails("info", url, has=("AWS_PROFILE", "other"), **none, AWS_PROFILE="other")


def check_errors(bigiron: Bigiron) -> None:
    """Errors name the object, the status, the code, and what to do."""
    bigiron.fails("info", f"s3://{BUCKET}/dumps/none", has=(f"s3://{BUCKET}/dumps/none", "404", "NoSuchKey"))
    bigiron.fails("info", "s3://no-such-bucket/a", has=("s3://no-such-bucket/a", "404", "NoSuchBucket", "check its name"))
    bigiron.fails("triage", "s3://no-such-bucket/", "-o", "/nonexistent", has=("no-such-bucket", "404"))
    bigiron.fails("info", "abfs://container/a", has=("az://CONTAINER/KEY",))
    bigiron.fails("info", f"s3://{BUCKET}/dumps/kdump", "vmcore", has=("vmcore: is a file",))


def check_faults(bigiron: Bigiron, proxy: Proxy, files: list[Path]) -> None:
    """Bad networks and servers: the same output, or an error that says what it was."""
    url, through = f"s3://{BUCKET}/dumps/kdump", {"AWS_ENDPOINT_URL": proxy.url}
    expected = bigiron.says("dmesg", files[2])
    for faults in (
        [("status", (503, "SlowDown")), ("reset", None), ("", None), ("cut", None), ("", None), ("status", (500, ""))],
        [("", None), ("cut", None), ("", None), ("lost", None), ("", None), ("status", (429, "TooManyRequests"))],
        [("slow", 0.02), ("slow", 0.02)],
    ):
        proxy.queue(*faults)
        equal(bigiron.says("dmesg", url, **through), expected, f"dmesg with {faults}")
        equal(len(proxy.faults), 0, "faults that were not used")
    proxy.queue(*[("status", (503, "SlowDown"))] * 10)
    bigiron.fails("dmesg", url, has=(url, "503", "SlowDown", "3 attempts", proxy.url), **through, AWS_MAX_ATTEMPTS="3")
    equal(len(proxy.seen), 3, "attempts")
    proxy.queue(("", None), ("etag", None))
    bigiron.fails("dmesg", url, has=(url, "replaced while it was read"), **through)
    proxy.queue(("status", (400, "ExpiredToken")))
    bigiron.fails("dmesg", url, has=(url, "ExpiredToken", "have expired; get new ones"), **through)
    # A profile may have been renewed.
    profile = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_PROFILE": "ours"}
    proxy.queue(("", None), ("status", (400, "ExpiredToken")))
    equal(bigiron.says("dmesg", url, **through, **profile), expected, "dmesg with keys that were renewed")
    proxy.queue(("hang", 60))
    bigiron.fails("dmesg", "--timeout", 1, url, has=(url,), status=124, **through)
    # All reads but the first are for the object that was opened.
    proxy.queue()
    bigiron.says("dmesg", url, **through)
    marks = [headers.get("if-match") for _, _, headers in proxy.seen]
    equal(marks[0] is None and len(marks) > 1 and None not in marks[1:], True, f"If-Match: {marks}")


def certificates(home: Path, server_address: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate authority of this test, and a server of this address that it has certified."""
    now = datetime.datetime.now(datetime.UTC)

    def certificate(name: str, key: Any, issuer: str, issuer_key: Any, is_authority: bool) -> x509.Certificate:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        builder = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(issuer))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        address = x509.IPAddress(ipaddress.ip_address(server_address))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        return builder.sign(issuer_key, hashes.SHA256())

    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    authority = certificate("authority", keys[0], "authority", keys[0], True)
    server = certificate("server", keys[1], "authority", keys[0], False)
    pem = serialization.Encoding.PEM
    (home / "authority.pem").write_bytes(authority.public_bytes(pem))
    key = keys[1].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (home / "server.pem").write_bytes(server.public_bytes(pem) + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "server.pem")
    return home / "authority.pem", context


def check_tls(bigiron: Bigiron, port: int, home: Path, files: list[Path]) -> None:
    """A server with a certificate that the machine trusts, and with one that it does not."""
    url = f"s3://{BUCKET}/dumps/kdump"
    trusted, context = certificates(home, "127.0.0.1")
    proxy = Proxy(port, context)
    said = bigiron.says("dmesg", url, AWS_ENDPOINT_URL=proxy.url, SSL_CERT_FILE=str(trusted))
    equal(said, bigiron.says("dmesg", files[2]), "dmesg over TLS")
    few = {"AWS_MAX_ATTEMPTS": "1"}
    bigiron.fails("dmesg", url, has=(url, proxy.url, "certificate"), AWS_ENDPOINT_URL=proxy.url, **few)
    none = {"SSL_CERT_FILE": str(home / "none.pem")}
    (home / "none.pem").touch()
    bigiron.fails("dmesg", url, has=(proxy.url, "ca-certificates.crt"), AWS_ENDPOINT_URL=proxy.url, **none)


def check_replaced(bigiron: Bigiron, proxy: Proxy, client: Any, home: Path, files: list[Path]) -> None:
    """An object that is replaced between two requests is an error, by the server's own comparison."""
    proxy.queue(("", None), ("slow", 0.2))
    url = f"s3://{BUCKET}/replaced"
    client.upload_file(str(files[2]), BUCKET, "replaced")
    reader = subprocess.Popen(
        [bigiron.program, "verify", "-q", url],
        env={**bigiron.environment, "AWS_ENDPOINT_URL": proxy.url},
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(proxy.seen) < 2:
        time.sleep(0.01)
    client.upload_file(str(files[1]), BUCKET, "replaced")
    said = reader.communicate(timeout=60)[1]
    equal(reader.returncode, 1, f"status of reading a replaced object: {said}")
    equal("replaced while it was read" in said, True, said)


def check_uploads(bigiron: Bigiron, proxy: Proxy, client: Any, home: Path, vmcore: Path) -> None:
    """A dump in an object is that in a file; a cut one can be completed; nothing is overwritten unasked."""
    through = {"AWS_ENDPOINT_URL": proxy.url}
    url = f"s3://{BUCKET}/uploads/whole"
    # Three parts, of which each fails once.
    faults = [("", None)] * 2 + [("status", (503, "SlowDown")), ("reset", None), ("lost", None)]
    proxy.queue(*faults)
    bigiron.says("dump", "-q", "-f", "elf", "-d", "1", vmcore, url, **through)
    equal(len(proxy.faults), 0, "faults that were not used")
    whole = client.get_object(Bucket=BUCKET, Key="uploads/whole")["Body"].read()
    bigiron.says("dump", "-q", "-f", "elf", "-d", "1", vmcore, home / "whole")
    equal(whole == (home / "whole").read_bytes(), True, "an ELF core as an object and as a file")
    bigiron.fails("dump", "-q", vmcore, url, has=(url, "already", "--overwrite"))
    equal(client.get_object(Bucket=BUCKET, Key="uploads/whole")["Body"].read() == whole, True, "an object that stays")
    bigiron.says("dump", "-q", "--overwrite", vmcore, url)
    bigiron.says("verify", "-q", "--against", vmcore, url)
    equal(client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []), [], "uploads that are left")
    # The server did it, and the client did not hear of it: begin, one part, the look for an object, completion.
    proxy.queue(*[("", None)] * 4, ("lost", None))
    bigiron.says("dump", "-q", vmcore, f"{url}-lost", **through, AWS_MAX_ATTEMPTS="1")
    bigiron.says("verify", "-q", "--against", vmcore, f"{url}-lost")
    # Another one appears meanwhile: the server's own comparison.
    url = f"s3://{BUCKET}/uploads/raced"
    proxy.queue(("", None), ("", None), ("", None), ("status", (404, "NoSuchKey")))
    dumping = subprocess.Popen(
        [bigiron.program, "dump", "-q", vmcore, url],
        env={**bigiron.environment, **through},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not proxy.seen:
        time.sleep(0.01)
    client.put_object(Bucket=BUCKET, Key="uploads/raced", Body=b"another")
    said = dumping.communicate(timeout=60)[1]
    equal((dumping.returncode, "already" in said), (1, True), f"a race: {said}")
    equal(client.get_object(Bucket=BUCKET, Key="uploads/raced")["Body"].read(), b"another", "the winner of a race")


def check_saved(bigiron: Bigiron, proxy: Proxy, home: Path, vmcore: Path) -> None:
    """What is on a dump device becomes an object, and the device is marked as saved only then."""
    device, url = home / "device", f"s3://{BUCKET}/saved/vmdump"
    with device.open("wb") as file:
        file.truncate(64 << 20)
    bigiron.says("dump", "-q", "--device", "-f", "vmdump", vmcore, device)
    proxy.queue(*[("", None)] * 2, *[("status", (403, "AccessDenied"))] * 3)
    bigiron.fails("save", device, url, has=(url, "403", "AccessDenied"), AWS_ENDPOINT_URL=proxy.url)
    equal("bytes" in bigiron.says("save", device, url), True, "save")
    bigiron.says("verify", "-q", "--against", vmcore, url)
    equal("no dump" in bigiron.says("save", device, f"{url}2"), True, "save of a device that was saved")
    bigiron.says("dump", "-q", "-f", "vmdump", vmcore, home / "file.vmdump")
    bigiron.fails("save", home / "file.vmdump", url, has=(url, "already"))
    bigiron.says("save", "-q", "--overwrite", home / "file.vmdump", url)
    bigiron.says("verify", "-q", "--against", home / "file.vmdump", url)


def check_retention(bigiron: Bigiron, client: Any, home: Path, vmcore: Path) -> None:
    """Older dumps beside the new one are removed, and nothing else is."""
    dump, prefix = home / "kept.vmdump", "kept/host7/"
    bigiron.says("dump", "-q", "-f", "vmdump", vmcore, dump)
    others = {
        f"{prefix}vmcore-dmesg.txt": b"a log",
        f"{prefix}notes": b"",
        f"{prefix}vmcore": Path(bigiron.program).read_bytes()[:100_000],  # a program, whatever its name
        f"{prefix}older/vmdump.0": dump.read_bytes(),
        "kept/host71/vmdump.0": dump.read_bytes(),
        "kept/host7": dump.read_bytes(),
    }
    for key, content in others.items():
        client.put_object(Bucket=BUCKET, Key=key, Body=content)

    def keys() -> list[str]:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="kept/")
        return sorted(entry["Key"] for page in pages for entry in page.get("Contents", []))

    def save(number: int, *options: object) -> str:
        return bigiron.run("save", *options, dump, f"s3://{BUCKET}/{prefix}vmdump.{number}").stderr

    for number in range(3):
        time.sleep(1.1)  # the server's times have seconds
        save(number)
    client.upload_file(str(dump), BUCKET, f"{prefix}kdump-of-another")
    names = [f"{prefix}{name}" for name in ("kdump-of-another", "vmdump.0", "vmdump.1", "vmdump.2")]
    equal(keys(), sorted([*others, *names]), "objects without limits")
    time.sleep(1.1)
    said = save(3, "--keep-dumps", 3)
    equal(said.count("removed; newer dumps stay"), 2, said)
    stay = [f"{prefix}{name}" for name in ("kdump-of-another", "vmdump.2", "vmdump.3")]
    equal(keys(), sorted([*others, *stay]), "objects after --keep-dumps")
    said = save(4, "--max-size", "1M")
    equal("the newest dump alone takes" in said, True, said)
    equal(keys(), sorted([*others, f"{prefix}vmdump.4"]), "objects after --max-size")


def check_firsts(bigiron: Bigiron, client: Any, home: Path) -> None:
    """The first dump of a crash stays besides the newest ones, while there is room."""
    core, crash = home / "crashed.elf", home / "crashed.vmdump"
    sample = Path(__file__).parent.parent / "samples/linux-6.12-arm64.elf.xz"
    core.write_bytes(lzma.decompress(sample.read_bytes()))
    bigiron.says("dump", "-q", "-f", "vmdump", core, crash)
    # Of objects with the same time the names tell the order.
    for number in range(3):
        client.upload_file(str(crash), BUCKET, f"firsts/vmdump.{number}")

    def save(number: int, *options: object) -> str:
        name = f"s3://{BUCKET}/firsts/vmdump.{number}"
        return bigiron.run("save", *options, home / "kept.vmdump", name).stderr

    def keys() -> list[str]:
        return [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET, Prefix="firsts/")["Contents"]]

    said = save(3, "--keep-dumps", 1)
    equal("vmdump.0: stays, the first dump of its crash" in said, True, said)
    equal(keys(), ["firsts/vmdump.0", "firsts/vmdump.3"], "the first and the newest")
    room = crash.stat().st_size + (home / "kept.vmdump").stat().st_size
    save(4, "--max-size", room)
    equal(keys(), ["firsts/vmdump.0", "firsts/vmdump.4"], "the first before a newer dump without a crash")
    save(5, "--max-size", room - 1)
    equal(keys(), ["firsts/vmdump.5"], "no room for the first")


def check_killed_upload(bigiron: Bigiron, client: Any, vmcore: Path) -> None:
    """A dump whose process is killed is completed by another one, to a dump that is cut."""
    url = f"s3://{BUCKET}/uploads/killed"
    bigiron.fails("save", "--complete", url, has=(url, "no upload of this name"))
    dumping = subprocess.Popen(
        [bigiron.program, "dump", "-q", "--write-limit", "15M", vmcore, url], env=bigiron.environment
    )
    while not client.list_multipart_uploads(Bucket=BUCKET).get("Uploads"):
        time.sleep(0.05)
    time.sleep(0.5)
    dumping.kill()
    dumping.wait()
    # The helper uploads what it has, and ends.
    for _ in range(100):
        said = bigiron.run("save", "--complete", url)
        if said.returncode == 0:
            break
        time.sleep(0.1)
    equal("vmdump" in said.stdout and "complete" not in said.stdout.split("vmdump")[1].split(",")[0], True, said.stdout + said.stderr)
    info = bigiron.says("info", "--json", url)
    equal(json.loads(info)["dump"]["complete"], False, "complete")
    read = bigiron.run("verify", url)
    equal(read.returncode == 1 and "pages read" in read.stdout, True, f"verify: {read.stdout}{read.stderr}")


def check_restart(bigiron: Bigiron, proxy: Proxy, vmcore: Path) -> None:
    """A server that is away for a second in the middle of an upload."""
    url = f"s3://{BUCKET}/uploads/restarted"
    proxy.queue(*[("", None)] * 2, *[("reset", None)] * 3)
    bigiron.says("dump", "-q", vmcore, url, AWS_ENDPOINT_URL=proxy.url)
    bigiron.says("verify", "-q", "--against", vmcore, url)


def check_signatures(bigiron: Bigiron, port: int) -> None:
    """From here on moto checks signatures as AWS does."""
    iam = boto3.client(
        "iam", endpoint_url=f"http://127.0.0.1:{port}", region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b"
    )
    iam.create_user(UserName="reader")
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    request = urllib.request.Request(f"http://127.0.0.1:{port}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(request).read()
    right = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    for name in ("kdump", "vm dump.vmdump"):
        bigiron.says("dmesg", f"s3://{BUCKET}/dumps/{name}", **right)
    url = f"s3://{BUCKET}/dumps/kdump"
    wrong = {**right, "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    bigiron.fails("dmesg", url, has=(url, "403", "SignatureDoesNotMatch", "the credentials are wrong"), **wrong)
    bigiron.fails("dmesg", url, has=(url, "403", "InvalidAccessKeyId", "the credentials are wrong"))


def main() -> None:
    program, vmcore, home = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    server, port, client = start_server(home)
    try:
        bigiron = Bigiron(program, home, f"http://127.0.0.1:{port}")
        files = put_objects(bigiron, vmcore, home, client)
        proxy = Proxy(port)
        check_same(bigiron, files, home)
        check_credentials(bigiron, home, port)
        check_given_credentials(bigiron, proxy, home, port)
        check_google(bigiron, proxy, home, vmcore, files)
        check_errors(bigiron)
        check_faults(bigiron, proxy, files)
        check_tls(bigiron, port, home, files)
        check_replaced(bigiron, proxy, client, home, files)
        check_triage(bigiron, home, files)
        check_uploads(bigiron, proxy, client, home, vmcore)
        check_saved(bigiron, proxy, home, vmcore)
        check_retention(bigiron, client, home, vmcore)
        check_firsts(bigiron, client, home)
        check_killed_upload(bigiron, client, vmcore)
        check_restart(bigiron, proxy, vmcore)
        check_signatures(bigiron, port)
    finally:
        server.kill()
    print(f"{CHECKS} comparisons, {time.process_time():.1f} s")


if __name__ == "__main__":
    main()
