"""SQL over tables without a sandbox: one thread of the test reads the tables, the test runs the text."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from jobs.engine.query.piped import PipedTables
from jobs.engine.query.run import run_query
from jobs.engine.query.serving import TableServer
from jobs.protocol import QueryRequest, QueryTable, ReadTablesRequest


@contextmanager
def a_reader(
    folder: Path, tables: Sequence[QueryTable], base: Sequence[QueryTable] | None = None, **more: Any
) -> Iterator[PipedTables]:
    """A reader of these tables, in a thread."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    spill = folder / "tables"
    spill.mkdir(exist_ok=True)
    request = ReadTablesRequest(tuple(tables), str(spill), base=None if base is None else tuple(base), **more)
    server = Thread(target=TableServer(request, far).serve, daemon=True)
    server.start()
    try:
        yield PipedTables(near)
    finally:
        near.close()
        server.join(10)
        far.close()


def run_sql(
    request: QueryRequest, tables: Sequence[QueryTable], base: Sequence[QueryTable] | None = None
) -> dict[str, Any]:
    """Run a query over tables; return its summary."""
    with a_reader(Path(request.folder), tables, base) as reader:
        return run_query(request, reader)
