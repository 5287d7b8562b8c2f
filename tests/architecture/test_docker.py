"""The container files name what was tested; nothing here runs a container."""

from __future__ import annotations

import os
import re
from pathlib import Path

from django.conf import settings

ROOT = Path(settings.BASE_DIR)
DOCKER = ROOT / "docker"


def test_entrypoints_can_be_run_and_exec_their_program() -> None:
    scripts = list((DOCKER / "entrypoints").glob("*.sh"))

    assert {script.name for script in scripts} == {"web.sh", "worker.sh"}
    assert all(os.access(script, os.X_OK) for script in scripts)
    assert all(re.search(r"^exec ", script.read_text(), re.MULTILINE) for script in scripts)


def test_image_installs_from_the_locks_only() -> None:
    text = (DOCKER / "Dockerfile").read_text()

    assert "--require-hashes -r .locks/requirements.txt" in text
    assert "npm ci" in text
    assert all("--require-hashes" in line for line in text.splitlines() if "pip install" in line)


def test_compose_file_has_no_default_secret() -> None:
    text = (DOCKER / "compose.yaml").read_text()

    for name in ("DATABASE_PASSWORD", "TRIBUTARY_SECRET_KEY", "TRIBUTARY_ADMIN_PASSWORD"):
        assert re.findall(rf"\${{{name}(.*?)}}", text)
        assert all(rest.startswith(":?") for rest in re.findall(rf"\${{{name}(.*?)}}", text))
