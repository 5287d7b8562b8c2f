"""Colours the icons of a page's datasets: blue where a JobSpec on master makes the dataset, else gray."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webapp.datasets import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

_ICON = re.compile(rb'class="icon ds-gray([^"]*)" data-ds="(/[\w/-]+)"', re.ASCII)
"""As the tag `dataset_icon` writes it; what people write is escaped and never looks like this."""


class DatasetColours:
    """Asks once a page, whatever the page, which of its datasets have a JobSpec on master."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_page = not response.streaming and response.get("Content-Type", "").startswith("text/html")
        paths = {path for _, path in _ICON.findall(response.content)} if is_page else set()
        if paths:
            blue = {path.encode() for path in queries.list_with_jobspec(path.decode() for path in paths)}
            response.content = _ICON.sub(
                lambda icon: icon[0].replace(b"ds-gray", b"ds-blue", 1) if icon[2] in blue else icon[0],
                response.content,
            )
        return response
