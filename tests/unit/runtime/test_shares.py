"""One person's part of what all share."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from webapp.core.errors import TooManyRequests
from webapp.core.problems import list_headers
from webapp.runtime.web.shares import RETRY_S, Share


def test_a_share_is_each_persons_own_and_comes_back() -> None:
    share = Share(2, what="uploads")
    with ExitStack() as held:
        for person in ("ines", "ines", "olek"):
            held.enter_context(share.taking(person))
        with pytest.raises(TooManyRequests, match="2 uploads of ines are under way") as refused, share.taking("ines"):
            pass
        assert ("Retry-After", str(RETRY_S)) in list_headers(refused.value)
        with share.taking("olek"):
            pass
    with share.taking("ines"), share.taking("ines"):
        pass
