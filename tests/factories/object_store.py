"""A real S3-compatible store for tests, SeaweedFS from its wheel: checks signatures, gives out sessions, keeps to their policies."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUCKET = "lake"
KEY, SECRET = "key-of-the-installation", "secret-of-the-installation"  # noqa: S105
ROLE = "arn:aws:iam::000000000000:role/tables"
PATIENCE_S = 40
_IDENTITIES = {
    "identities": [
        {
            "name": "tributary",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}
_ANYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*", "arn:aws:s3:::*/*"]}],
}
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::000000000000:user/tributary"},
            "Action": ["sts:AssumeRole"],
        }
    ],
}
_ROLES = {
    "sts": {
        "tokenDuration": "1h",
        "maxSessionLength": "12h",
        "issuer": "tests",
        "signingKey": "dGVzdC1zaWduaW5nLWtleS0zMi1ieXRlcy1sb25nLWhlcmU=",
    },
    "policy": {"defaultEffect": "Deny", "storeType": "memory"},
    "policies": [{"name": "everything", "document": _ANYTHING}],
    "roles": [{"roleName": "tables", "roleArn": ROLE, "attachedPolicies": ["everything"], "trustPolicy": _TRUST}],
}


@dataclass
class ObjectStore:
    """A running store with one bucket."""

    folder: Path
    ports: list[int] = field(default_factory=lambda: _find_ports(5))
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def warehouse(self) -> str:
        """A warehouse in it."""
        return f"s3://{BUCKET}/warehouse"

    @property
    def environment(self) -> Mapping[str, str]:
        """What an installation's own processes get."""
        return {
            "TRIBUTARY_WAREHOUSE": self.warehouse,
            "TRIBUTARY_S3_ENDPOINT": self.endpoint,
            "TRIBUTARY_S3_ACCESS_KEY_ID": KEY,
            "TRIBUTARY_S3_SECRET_ACCESS_KEY": SECRET,
            "TRIBUTARY_S3_ROLE": ROLE,
        }

    def configure(self, settings: Any) -> None:
        """Give Django's settings of a test what the environment would."""
        settings.TRIBUTARY_WAREHOUSE = self.warehouse
        settings.TRIBUTARY_S3_ENDPOINT = settings.TRIBUTARY_S3_STS_ENDPOINT = self.endpoint
        settings.TRIBUTARY_S3_PATH_STYLE = True
        settings.TRIBUTARY_S3_KEYS = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        settings.TRIBUTARY_S3_ROLE = ROLE
        settings.TRIBUTARY_S3_SHARE_KEYS = False

    def client(self, **keys: str) -> Any:
        """A client with these keys, or with the installation's."""
        from botocore.config import Config
        from botocore.session import get_session

        own = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        return get_session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
            **(keys or own),
        )

    def list(self, prefix: str = "warehouse/") -> list[str]:
        """The keys of all objects below a prefix."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def start(self) -> None:
        """Start it, or start it again with what it held."""
        s3, master, volume, filer, admin = (str(port) for port in self.ports)
        command = [
            *(str(Path(sys.executable).with_name("weed")), "mini", f"-dir={self.folder / 'data'}"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={s3}", f"-master.port={master}"),
            *(f"-volume.port={volume}", f"-filer.port={filer}", f"-admin.port={admin}", "-webdav=false"),
            *("-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
            f"-s3.config={self.folder / 's3.json'}",
            f"-s3.iam.config={self.folder / 'iam.json'}",
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        self._wait()

    def stop(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _wait(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        deadline = time.monotonic() + PATIENCE_S
        client = self.client()
        while True:
            try:
                if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
                    client.create_bucket(Bucket=BUCKET)
                # An empty object would need no volume: the bytes show that those are there again too.
                client.put_object(Bucket=BUCKET, Key="ready", Body=b"yes")
                client.get_object(Bucket=BUCKET, Key="ready")["Body"].read()
            except (BotoCoreError, ClientError):
                assert time.monotonic() < deadline, (self.folder / "log").read_text()[-4000:]
                time.sleep(0.2)
            else:
                return


@contextlib.contextmanager
def running_store() -> Iterator[ObjectStore]:
    """Start a store with an empty bucket, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="tributary-store-"))
    (folder / "data").mkdir()
    (folder / "s3.json").write_text(json.dumps(_IDENTITIES))
    (folder / "iam.json").write_text(json.dumps(_ROLES))
    store = ObjectStore(folder)
    try:
        store.start()
        yield store
    finally:
        store.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _find_ports(count: int) -> list[int]:
    """Free ports whose companions, ten thousand above, are free too: it listens there for its own parts.

    All are below those that the system gives to outgoing connections: while the store is stopped, it may not lose one.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(12_000, 22_000), 10_000):
        with contextlib.suppress(OSError), socket.socket() as probe, socket.socket() as companion:
            probe.bind(("127.0.0.1", port))
            companion.bind(("127.0.0.1", port + 10_000))
            ports.append(port)
        if len(ports) == count:
            break
    return ports
