"""Read tables for a process that runs a user's SQL: a ReadTablesRequest in, answers over the channel.

    python -m jobs.entrypoints.tables request.json

This process opens the files of the tables and never sees the SQL. See jobs/engine/query/serving.py.
"""

from __future__ import annotations

import signal
import socket
import sys

from jobs.channel import NUMBER
from jobs.engine.query.serving import TableServer
from jobs.protocol import ProtocolError, ReadTablesRequest, read_message

_OK, _BAD_REQUEST = 0, 2


def main(path: str) -> int:
    """Answer until the other process ends."""
    try:
        request = read_message(ReadTablesRequest, path)
    except ProtocolError as error:
        sys.stderr.write(f"{error}\n")
        return _BAD_REQUEST
    # a query that needs no more rows closes its end, which is no reason to die
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    TableServer(request, socket.socket(fileno=NUMBER)).serve()
    return _OK
