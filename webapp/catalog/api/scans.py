"""Server-side scan planning: parse → one service → answer."""

from typing import Any

from webapp.catalog.api.http import Call, CatalogResponse, answer, empty
from webapp.catalog.rules.metadata import field
from webapp.core.errors import TooLarge

LARGEST_REQUEST = 4 * 1024 * 1024


def plan_table_scan(call: Call) -> CatalogResponse:
    """Return the files that a scan has to read, all at once or as plan tasks to be fetched."""
    from webapp.catalog.rules.scans import ScanRequest

    if len(call.request.body) > LARGEST_REQUEST:
        message = f"A scan is described in at most {LARGEST_REQUEST} bytes"
        raise TooLarge(message)
    planned = _services().plan_scan(ref=call.table, request=ScanRequest.parse(call.json()), by=call.by)
    return answer({"status": "completed", "plan-id": planned.plan_id, **_tasks(planned)})


def fetch_planning_result(call: Call) -> CatalogResponse:
    """Return what planning has found: the same as it answered."""
    planned = _services().fetch_plan(ref=call.table, plan_id=call.variables["plan-id"], by=call.by)
    if planned is None:
        return answer({"status": "cancelled"})
    return answer({"status": "completed", **_tasks(planned)})


def cancel_planning(call: Call) -> CatalogResponse:
    """Forget the plan: nothing more of it will be fetched."""
    _services().cancel_plan(ref=call.table, plan_id=call.variables["plan-id"], by=call.by)
    return empty()


def fetch_scan_tasks(call: Call) -> CatalogResponse:
    """Return the files behind one plan task."""
    task = field(call.json(), "plan-task", str)
    return answer(_tasks(_services().fetch_tasks(ref=call.table, task=task, by=call.by)))


def _tasks(planned: Any) -> dict[str, Any]:
    # Clients tell "no tasks" from "none here" by the absence of a list, and refuse deletes without files.
    parts = {
        "plan-tasks": planned.plan_tasks,
        "delete-files": planned.delete_files,
        "file-scan-tasks": planned.file_scan_tasks,
    }
    return {key: value for key, value in parts.items() if value or key == "file-scan-tasks"}


def _services() -> Any:
    # Half a second of imports, which no other operation needs.
    from webapp.catalog.services import scans

    return scans
