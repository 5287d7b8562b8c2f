"""A writer in a process of its own, so that its clock can be wrong: a key a line in, what became of it a line out."""

from __future__ import annotations

import sys

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException

from tests.faults.ledger import Outcome

ROWS = pa.schema([("id", pa.string())])


def append_row(uri: str, token: str, table: str, key: str, branch: str | None = None) -> tuple[Outcome, str]:
    """Append one row as any PyIceberg client does; what the client was told, and why where it was not done."""
    header = {} if branch is None else {"header.X-PLTR-Branch": branch}
    try:
        loaded = load_catalog("faults", type="rest", uri=uri, token=token, **header).load_table(table)
    except Exception as error:  # noqa: BLE001 - under faults any class; nothing was written, and the run says which
        return "refused", f"{type(error).__name__} at loading"
    try:
        loaded.append(pa.table({"id": [key]}, schema=ROWS))
    except (CommitFailedException, BadRequestError) as error:
        return "refused", type(error).__name__
    except Exception as error:  # noqa: BLE001 - under faults any class; the client cannot know what was done
        return "unknown", type(error).__name__
    return "acknowledged", ""


if __name__ == "__main__":
    for line in sys.stdin:
        print(*append_row(*sys.argv[1:4], line.strip()), flush=True)
