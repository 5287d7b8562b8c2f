"""`manage.py fsck` as tests run it, and what it has named: a test marked `damage` must have had its damage named."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from django.core.management import call_command

named: set[str] = set()
"""The codes of the findings that the running test has met."""


def look(*options: str) -> dict[str, Any]:
    """Run fsck; what it says as JSON. It ends with 1 exactly where it has findings."""
    out = StringIO()
    try:
        call_command("fsck", "--json", "--settle", "0", *options, stdout=out)
        code: Any = 0
    except SystemExit as end:
        code = end.code
    report: dict[str, Any] = json.loads(out.getvalue())
    assert code == (0 if report["clean"] else 1)
    named.update(finding["code"] for check in report["checks"] for finding in check["findings"])
    return report


def find(*options: str) -> list[tuple[str, str]]:
    """The code and object of each finding."""
    return [(finding["code"], finding["object"]) for check in look(*options)["checks"] for finding in check["findings"]]


def repair(*options: str) -> dict[str, Any]:
    """Repair, and once more: the second time there is nothing left to do."""
    report = look(*options, "--repair")
    assert report["repairs"]
    assert all(line.startswith("mended: ") for line in report["repairs"]), report["repairs"]
    again = look(*options, "--repair")["repairs"]
    assert again == [], again
    return report
