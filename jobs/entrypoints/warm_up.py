"""Runs one query on a Spark server that has just started, so that the first job finds it warm.

`python -m jobs.entrypoints.warm_up <remote> <mark>`: the file <mark> appears when it is done.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jobs.engine.session import close_session, connect


def main(arguments: list[str]) -> int:
    """Query, then leave the mark."""
    remote, mark = arguments
    session = connect(remote, job_id="warm-up", session_id=None)
    try:
        session.range(1000).selectExpr("sum(id)").collect()
    finally:
        close_session(session)
    Path(mark).touch()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
