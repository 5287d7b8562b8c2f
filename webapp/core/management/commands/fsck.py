"""`manage.py fsck`: is everything there that the installation promises to keep?"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.core.fsck import Finding, Inspection, Report, check_all, list_checks, repair

SETTLE_SECONDS = 5.0


class Command(BaseCommand):
    """Looks at a living installation; ends with 1 where something is not as promised."""

    help = "Check pointers, files, branches, transactions, Git, diffs, merges and the audit log; nothing is stopped."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("checks", nargs="*", help="names of checks; all of them by default")
        parser.add_argument("--repair", action="store_true", help="mend what is safe to mend, and look again")
        parser.add_argument("--json", action="store_true", help="answer as JSON")
        parser.add_argument(
            "--settle",
            type=float,
            default=SETTLE_SECONDS,
            metavar="SECONDS",
            help="what was found counts if it is found again after so long; changes under way are not damage",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Look, mend if asked, look again, and say what remains."""
        checks = _choose(options["checks"])
        reports = check_all(checks, settle_seconds=options["settle"])
        repairs: list[str] = []
        if options["repair"]:
            repairs = repair(finding for report in reports for finding in report.findings)
        if repairs:
            reports = check_all(checks, settle_seconds=options["settle"])
        write = self._write_json if options["json"] else self._write_text
        write(reports, repairs)
        if any(report.findings for report in reports):
            raise SystemExit(1)

    def _write_text(self, reports: list[Report], repairs: list[str]) -> None:
        for line in repairs:
            self.stdout.write(line)
        for report in reports:
            state = f"{len(report.findings)} found" if report.findings else "ok"
            counted = "".join(f", {note.count:,} {note.what}" for note in report.notes)
            self.stdout.write(f"{report.check.name}: {state}{counted}")
            for finding in report.findings:
                self.stdout.write(f"  {finding.code}: {finding.object}: {finding.problem}\n    {_way_out(finding)}")

    def _write_json(self, reports: list[Report], repairs: list[str]) -> None:
        body = {
            "clean": not any(report.findings for report in reports),
            "repairs": repairs,
            "checks": [
                {
                    "name": report.check.name,
                    "promise": report.check.promise,
                    "findings": [
                        {
                            "code": finding.code,
                            "object": finding.object,
                            "problem": finding.problem,
                            "way_out": _way_out(finding),
                            "can_repair": finding.repair is not None,
                        }
                        for finding in report.findings
                    ],
                    "counted": {note.what: note.count for note in report.notes},
                }
                for report in reports
            ],
        }
        self.stdout.write(json.dumps(body, indent=2))


def _choose(names: list[str]) -> list[Inspection]:
    checks = list_checks()
    unknown = sorted(set(names) - {check.name for check in checks})
    if unknown:
        msg = f"There is no check {unknown[0]}. There are: {', '.join(check.name for check in checks)}."
        raise CommandError(msg)
    return [check for check in checks if not names or check.name in names]


def _way_out(finding: Finding) -> str:
    return f"{finding.way_out} `manage.py fsck --repair` does it." if finding.repair is not None else finding.way_out
