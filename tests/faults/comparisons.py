"""Row diffs under load: what a comparison says is what the rows of both ends say, read by a client that knows no diff."""

from __future__ import annotations

import csv
import io
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.faults.client import Client

END_S = 300
COUNTS = ("inserted", "deleted", "updated", "unchanged")


class Comparer:
    """Compares two transactions of a dataset, and checks the answer."""

    def __init__(self, client: Client, open_catalog: Callable[[str | None], Any], dice: random.Random) -> None:
        self._client = client
        self._open_catalog = open_catalog
        self._dice = dice
        self.checked: Counter[str] = Counter()
        """Comparisons of each dataset whose numbers were checked."""
        self.repeated = 0
        """How often one failed or was lost and had to be asked for again."""

    def compare(self, path: str) -> None:
        """Compare any two of the newest transactions, in any order."""
        datasets = self._client.get(f"/datasets?path={path}")["results"]
        if not datasets:
            return  # the build that makes it has not ended
        [dataset] = datasets
        newest = self._client.get(f"/datasets/{dataset['id']}/transactions")["results"]
        committed = [entry for entry in newest if entry["state"] == "COMMITTED" and entry["snapshot_id"]]
        if len(committed) < 2:
            return
        before, after = self._dice.sample(committed, 2)
        address = f"/datasets/{dataset['id']}/compare"
        ends = f"from={before['id']}&to={after['id']}&keys=id"
        if not self._wait(f"{address}?{ends}"):
            return
        summary = self._client.get(f"{address}?{ends}")["summary"]
        answer = self._client.send("GET", f"{address}/rows.csv?{ends}")
        assert answer.status_code == 200, answer.text
        self.check(path, summary, answer.text, *(self._read(path, end) for end in (before, after)))
        self.checked[path] += 1

    def _wait(self, address: str) -> bool:
        """Ask until it is ready, again where it failed; False where an end is not there any more."""
        deadline = time.monotonic() + END_S
        while True:
            answer = self._client.send("GET", address)
            if answer.status_code in {404, 409, 410}:
                return False
            assert answer.status_code == 200, f"{address}: {answer.status_code} {answer.text}"
            body = answer.json()
            if body["state"] == "ready":
                return True
            assert time.monotonic() < deadline, f"{address} does not end: {body['summary']}"
            if body["state"] == "failed":
                self.repeated += 1
                self._client.send("POST", address)
            time.sleep(0.5)

    def _read(self, path: str, transaction: dict[str, Any]) -> dict[str, Any]:
        """Return the rows of a transaction by key, through Iceberg."""
        branch = None if transaction["branch"] == "master" else transaction["branch"]
        name = path.strip("/").replace("/", ".")

        def read() -> list[dict[str, Any]]:
            table = self._open_catalog(branch).load_table(name)
            rows: list[dict[str, Any]] = table.scan(snapshot_id=transaction["snapshot_id"]).to_arrow().to_pylist()
            return rows

        return {row["id"]: row for row in self._client.until_final(read)}

    @staticmethod
    def check(path: str, summary: dict[str, Any], text: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Fail unless counts and listed rows are what the rows of both ends, by key, say."""
        both = before.keys() & after.keys()
        expected = {
            "inserted": after.keys() - before.keys(),
            "deleted": before.keys() - after.keys(),
            "updated": {key for key in both if before[key] != after[key]},
        }
        unchanged = len(both) - len(expected["updated"])
        counts = {name: summary[name] for name in COUNTS}
        assert counts == {**{name: len(keys) for name, keys in expected.items()}, "unchanged": unchanged}, path
        rows = list(csv.DictReader(io.StringIO(text)))
        listed = {
            name: {row["after.id"] or row["before.id"] for row in rows if row["change"] == name} for name in expected
        }
        assert listed == expected, f"{path}: the rows are not those that were counted"
        assert len(rows) == sum(map(len, expected.values())), f"{path}: a row is listed twice"
