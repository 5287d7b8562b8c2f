"""The container files name what was tested; nothing here runs a container."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml
from django.conf import settings

from webapp.runtime.management.commands.build_assets import _find_node

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

    for name in ("BROKER_PASSWORD", "DATABASE_PASSWORD", "TRIBUTARY_SECRET_KEY", "TRIBUTARY_ADMIN_PASSWORD"):
        assert re.findall(rf"\${{{name}(.*?)}}", text)
        assert all(rest.startswith(":?") for rest in re.findall(rf"\${{{name}(.*?)}}", text))


def test_broker_asks_for_the_password_that_its_clients_have() -> None:
    text = (DOCKER / "compose.yaml").read_text()

    assert "requirepass $$BROKER_PASSWORD" in text
    assert re.search(r"CELERY_BROKER_URL: redis://:\${BROKER_PASSWORD:\?[^}]*}@broker", text)


# --- the image, replayed without an engine --------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """One stage of the Dockerfile: its instructions in order."""

    name: str
    instructions: list[tuple[str, str]]

    def runs(self) -> list[str]:
        return [rest for word, rest in self.instructions if word == "RUN"]


def read_stages() -> dict[str, Stage]:
    text = (DOCKER / "Dockerfile").read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    stages: list[Stage] = []
    for line in filter(None, lines):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append(Stage(name=rest.split(" AS ")[1], instructions=[]))
        else:
            stages[-1].instructions.append((word, rest.strip()))
    return {stage.name: stage for stage in stages}


def copy_into(folder: Path, rest: str, built: dict[str, Path]) -> None:
    """Do one COPY as an engine does: from the context without what .dockerignore names, or from an earlier stage."""
    *sources, target = rest.split()
    base = ROOT
    if sources[0].startswith("--from="):
        base = built[sources.pop(0).removeprefix("--from=")]
        sources = [source.removeprefix("/app/") for source in sources]
    for source in sources:
        assert (base / source).exists(), f"COPY {rest}: {source} is not there"
        if (base / source).is_dir():
            ignore = ignore_of_context if base == ROOT else None
            shutil.copytree(base / source, folder / target, dirs_exist_ok=True, ignore=ignore)
        else:
            shutil.copy(base / source, folder / target)


def ignore_of_context(folder: str, names: list[str]) -> set[str]:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert set(ignored) >= {".git", ".venv", "node_modules", "var"}
    here = Path(folder).relative_to(ROOT)
    return {name for name in names if str(here / name) in ignored or f"**/{name}" in ignored}


def replay(stage: Stage, folder: Path, built: dict[str, Path]) -> None:
    """Do the COPY instructions of a stage up to its end, and check that each RUN's files are there by then."""
    folder.mkdir()
    for word, rest in stage.instructions:
        if word == "COPY":
            copy_into(folder, rest, built)
        elif rest == "npm ci":
            # What it would install from the lock is here already; the network is not.
            assert {"package.json", "package-lock.json"} <= {path.name for path in folder.iterdir()}
            (folder / "node_modules").symlink_to(ROOT / "node_modules")
        elif rest == "npm run build":
            npm, environment = _find_node()
            command = [*npm, "run", "--silent", "build"]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


def run_python(folder: Path, home: Path, *arguments: str) -> None:
    environment = {"PATH": os.environ["PATH"], "TRIBUTARY_HOME": str(home)}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"


def test_every_stage_has_the_files_that_its_steps_need(tmp_path: Path) -> None:
    stages = read_stages()
    built: dict[str, Path] = {}
    for name in ("assets", "app"):
        replay(stages[name], tmp_path / name, built)
        built[name] = tmp_path / name

    assert stages["assets"].runs() == ["npm ci", "npm run build"]
    assets = {path.name for path in (built["assets"] / "static" / "build").iterdir()}
    assert assets >= {"app.js", "app.css", "icons.svg", "editor.js", "lineage.js"}
    assert "<symbol" in (built["assets"] / "static" / "build" / "icons.svg").read_text()

    app = built["app"]
    assert (app / "static" / "build" / "app.css").exists()
    settings_of_app = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'webapp.config.settings'"
    run_python(app, tmp_path / "home", "-c", f"{settings_of_app}; import django; django.setup()")
    [collect] = re.findall(r"manage\.py (collectstatic [^&]*)", " ".join(stages["app"].runs()))
    run_python(app, tmp_path / "home", "manage.py", *shlex.split(collect))
    entrypoint = json.loads(dict(stages["app"].instructions)["ENTRYPOINT"])
    assert os.access(app / entrypoint[0], os.X_OK)


def test_only_the_pages_are_published_and_no_part_has_more_rights_than_it_needs() -> None:
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]

    assert set(services) == {"database", "broker", "web", "worker"}
    assert {name for name, service in services.items() if service.get("ports")} == {"web"}
    assert services["web"]["ports"] == ["${TRIBUTARY_PORT:-8000}:8000"]
    assert not any("network_mode" in service or service.get("privileged") for service in services.values())
    assert [services[name]["cap_drop"] for name in ("web", "worker")] == [["ALL"], ["ALL"]]
    assert "cap_add" not in services["web"]
    assert services["web"]["security_opt"] == ["no-new-privileges:true"]
    # What it is started with is what its address says, and neither has a default.
    assert "requirepass $$BROKER_PASSWORD" in services["broker"]["command"][-1]
    required = "${BROKER_PASSWORD:?choose one, of letters and digits}"
    assert services["broker"]["environment"]["BROKER_PASSWORD"] == required
    assert services["web"]["environment"]["CELERY_BROKER_URL"] == f"redis://:{required}@broker:6379/0"
    assert services["worker"]["environment"] == services["web"]["environment"]
