"""Shows the supervisor that this process's event loop runs."""

from __future__ import annotations

import asyncio

from webapp.runtime.pulses import PIPE_SECONDS, beat


class LoopPulse:
    """Beats by the event loop alone."""

    def __init__(self) -> None:
        self._pipe: int | None = None

    def use(self, pipe: int | None) -> None:
        """Set the pipe to the supervisor, which the processes of the web part share; None without a supervisor."""
        self._pipe = pipe

    def start(self) -> None:
        """Beat from now on."""
        if self._pipe is not None:
            beat(self._pipe)
            asyncio.get_running_loop().call_later(PIPE_SECONDS, self.start)
