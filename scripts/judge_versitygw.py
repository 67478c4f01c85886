"""Reads and uploads dumps with versitygw, whose objects are files: it checks signatures, and can be restarted.

    judge_versitygw.py BIGIRON VERSITYGW VMCORE DIRECTORY
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError
from faulty_proxy import Proxy
from judge_objects import BUCKET, REGION, Bigiron, check_killed_upload, check_uploads, equal

KEY, SECRET = "AKIATEST", "the-secret-key"


class Versitygw:
    """The server, on a port that it keeps when it is started again."""

    def __init__(self, program: str, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (home / "objects").mkdir()
        (home / "sidecar").mkdir()
        self.command = [program, "--port", f"127.0.0.1:{self.port}", "posix"]
        self.command += ["--sidecar", str(home / "sidecar"), str(home / "objects")]
        self.log = (home / "versitygw.log").open("ab")
        self.start()

    def start(self) -> None:
        environment = {"PATH": os.environ["PATH"], "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        self.process = subprocess.Popen(self.command, env=environment, stdout=self.log, stderr=self.log)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise SystemExit("versitygw did not start; see versitygw.log")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def helper_of(parent: int) -> int:
    """The process that has the network."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(children[0])


def check_restart(bigiron: Bigiron, server: Versitygw, vmcore: Path) -> None:
    """The server is killed in the middle of an upload, and is back after two seconds."""
    url = f"s3://{BUCKET}/uploads/restarted"
    command = [bigiron.program, "dump", "-q", "-f", "elf", "-d", "0", "--write-limit", "30M", vmcore, url]
    dumping = subprocess.Popen(command, env=bigiron.environment, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    server.kill()
    time.sleep(2)
    server.start()
    said = dumping.communicate(timeout=120)[1]
    equal(dumping.returncode, 0, f"an upload over a restart: {said}")
    bigiron.says("verify", "-q", "--against", vmcore, url)


def check_kills(bigiron: Bigiron, vmcore: Path) -> None:
    """Both processes are killed at several moments: what is completed is the beginning of the dump."""
    for number, seconds in enumerate((1.0, 1.7, 2.4)):
        url = f"s3://{BUCKET}/uploads/killed{number}"
        command = [bigiron.program, "dump", "-q", "--write-limit", "30M", "-f", "elf", "-d", "0", vmcore, url]
        dumping = subprocess.Popen(command, env=bigiron.environment)
        time.sleep(seconds)
        if dumping.poll() is not None:
            raise SystemExit("the dump was done before it could be killed")
        helper = helper_of(dumping.pid)
        os.kill(helper, signal.SIGKILL)
        dumping.kill()
        dumping.wait()
        said = bigiron.run("save", "--complete", url)
        if said.returncode == 0:
            read = bigiron.run("verify", url)
            equal("pages read" in read.stdout, True, f"{read.stdout}{read.stderr}")
        else:
            equal("no first part" in said.stderr or "no upload" in said.stderr, True, said.stderr)
        print(f"killed after {seconds} s: {said.stdout}{said.stderr}".strip())


def main() -> None:
    program, versitygw, vmcore, home = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    server = Versitygw(versitygw, home)
    try:
        endpoint = f"http://127.0.0.1:{server.port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=SECRET
        )
        for _ in range(50):
            try:
                client.create_bucket(Bucket=BUCKET)
                break
            except BotoCoreError:
                time.sleep(0.1)
        bigiron = Bigiron(program, home, endpoint)
        client.upload_file(str(vmcore), BUCKET, "vmcore")
        equal(bigiron.says("dmesg", f"s3://{BUCKET}/vmcore"), bigiron.says("dmesg", vmcore), "dmesg")
        bigiron.fails(
            "dmesg",
            f"s3://{BUCKET}/vmcore",
            has=("403", "SignatureDoesNotMatch"),
            AWS_SECRET_ACCESS_KEY="not-the-secret",
        )
        check_uploads(bigiron, Proxy(server.port), client, home, vmcore)
        check_killed_upload(bigiron, client, vmcore)
        check_kills(bigiron, vmcore)
        check_restart(bigiron, server, vmcore)
    finally:
        server.kill()
    print("versitygw: done")


if __name__ == "__main__":
    main()
