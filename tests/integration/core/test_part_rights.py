"""What the parts of an installation have of rights and of secrets: as little as they can work with."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories.builds import HEAD, PASSWORD, make_transform
from tests.factories.supervised import SupervisedStack, supervised_stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
CANARIES = {
    "TRIBUTARY_SECRET_KEY": "canary-key-8f31-of-at-least-fifty-characters-0123456789",
    "TRIBUTARY_S3_ACCESS_KEY_ID": "canary-id-8f31",
    "TRIBUTARY_S3_SECRET_ACCESS_KEY": "canary-secret-8f31",
}
CHOWN, DAC_OVERRIDE, FOWNER = 1 << 0, 1 << 1, 1 << 3


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedStack]:
    with supervised_stack(tmp_path_factory.mktemp("rights") / "home", **CANARIES) as stack:
        yield stack
        supervisor = stack.parts["supervisor"]
        supervisor.terminate()
        supervisor.wait(30)
        assert list((stack.home / "run" / "secrets").iterdir()) == []


def list_processes(stack: SupervisedStack) -> list[Path]:
    supervisor = stack.parts["supervisor"].pid
    return [Path("/proc", str(process.pid)) for process in stack.processes()] + [Path("/proc", str(supervisor))]


def test_no_environment_of_a_part_holds_a_secret(running: SupervisedStack) -> None:
    environments = {path: (path / "environ").read_bytes() for path in list_processes(running)}
    assert len(environments) > 5
    secrets = [*CANARIES.values(), PASSWORD]
    shown = {
        (path.joinpath("comm").read_text().strip(), secret)
        for path, environment in environments.items()
        for secret in secrets
        if secret.encode() in environment
    }
    assert shown == set()


def test_the_files_of_secrets_are_their_owners_alone(running: SupervisedStack) -> None:
    [folder] = (running.home / "run" / "secrets").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert {path.name for path in folder.iterdir()} >= CANARIES.keys()


def test_parts_have_no_rights_of_root_but_those_of_files(running: SupervisedStack) -> None:
    files = CHOWN | DAC_OVERRIDE | FOWNER if os.geteuid() == 0 else 0
    for part, kept in (("web", 0), ("worker-quick", files), ("worker-builds", files), ("sweep", files)):
        status = Path("/proc", str(running.process_of(part).pid), "status").read_text()
        fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
        assert [int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, kept, kept, 0], part
        assert fields["NoNewPrivs"] == "1", part


def test_an_installation_works_with_them(running: SupervisedStack) -> None:
    running.make_repository()
    assert running.upload("/shop/raw", "id,amount\n1,10\n2,20\n").status_code == 201
    source = HEAD + make_transform("t", inputs=["/shop/raw"], output="/shop/t", body="out.write_table(i0.arrow())")
    running.commit({"pipelines/t.py": source})
    assert running.build("/shop/t")["state"] == "COMPLETED"
    [dataset] = running.call("GET", "/datasets?path=/shop/t")["results"]
    assert len(running.call("GET", f"/datasets/{dataset['id']}/preview")["rows"]) == 2
    running.call("DELETE", "/repositories/shop", expect=204)
