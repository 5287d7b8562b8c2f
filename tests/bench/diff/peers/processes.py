"""Peers that need packages of their own: each runs as a script of this folder in a process that sees those first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.diff.cases import Case

HERE = Path(__file__).parent
PACKAGES = HERE.parents[3] / ".venv" / "peers"
LIMIT = 300
SILENT = {"DO_NOT_TRACK": "1", "RECCE_DISABLE_TELEMETRY": "1", "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true"}
"""A benchmark tells nobody that it ran."""


@dataclass
class ProcessPeer:
    """One script; it gets the data files of both ends and the key, and answers with what it took and found."""

    name: str
    script: str
    too_slow: set[str] = field(default_factory=set)
    """The cases it did not finish; it is not asked about them again."""

    def run(self, case: Case, root: Path) -> None:
        """Ask for all differences of a case whose files can be read without applying deletes."""
        if case.files is None or case.name in self.too_slow or not PACKAGES.exists():
            return
        folder = root / f"{self.name}-{abs(hash(case.name))}"
        folder.mkdir(exist_ok=True)
        question = {"before": case.files[0], "after": case.files[1], "key": case.key, "folder": str(folder)}
        try:
            answer = self._ask(question, folder)
        except subprocess.TimeoutExpired:
            self.too_slow.add(case.name)
            sys.stderr.write(f"{case.name}: {self.name} was stopped after {LIMIT} s\n")
            return
        case.note(self.name, answer["seconds"], answer["processor"])
        case.check(self.name, answer["counts"], [case.updated, case.inserted, case.deleted])

    def _ask(self, question: dict[str, object], folder: Path) -> dict[str, object]:
        """The answer comes as a file, since these tools also write to the standard output."""
        answer = folder / "answer.json"
        command = [sys.executable, str(HERE / self.script), json.dumps(question), str(answer)]
        environment = {**os.environ, **SILENT, "HOME": str(folder), "PYTHONPATH": str(PACKAGES)}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment, cwd=folder, timeout=LIMIT
        )
        if done.returncode:
            raise SystemExit(f"{self.name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return json.loads(answer.read_text())


PROCESS_PEERS = (
    ProcessPeer("datacompy", "datacompy_report.py"),
    ProcessPeer("SQLMesh", "sqlmesh_table_diff.py"),
    ProcessPeer("Recce", "recce_value_diff.py"),
)
