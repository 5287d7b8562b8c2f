"""What ends a process while it is watched."""

from __future__ import annotations

import json
import socket
from threading import Thread

from webapp.dispatch.processes import Ending, Handle, ProcessEnd, watch
from webapp.runtime.spark_folders import Loan


def test_a_process_is_killed_at_once_when_the_spark_server_that_it_was_lent_ends() -> None:
    """Its code could go on, and meet the next server with the token of the last one."""
    near, far = socket.socketpair()
    lent, server = socket.socketpair()
    signals: list[str] = []

    def obey() -> None:
        with far, far.makefile("rb") as requests:
            for line in requests:
                signals.append(json.loads(line)["kill"])
                far.sendall(b'{"exit": 137}\n')

    keeper = Thread(target=obey)
    keeper.start()
    loan = Loan(lent)
    looks = iter((True, True))

    def look() -> bool:
        server.close()
        return next(looks)

    with near, lent:
        handle = Handle(pid=1, _socket=near, _pump=Thread())
        end = watch(handle, seconds=60, look=look, is_cut_off=lambda: loan.is_lost)
        assert end == ProcessEnd.of_code(137)
        assert end.with_spark(loan).ending is Ending.SPARK_LOST
    keeper.join()
    assert signals == ["KILL"]
