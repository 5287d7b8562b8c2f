"""The style guide shows every component."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

if TYPE_CHECKING:
    from django.test import Client

COMPONENTS = Path(settings.BASE_DIR) / "templates" / "components"


@pytest.mark.django_db
def test_the_style_guide_shows_every_component(admin_client: Client) -> None:
    """A component that nobody can look at is drawn once more by whoever does not find it."""
    shown = {template.name for template in admin_client.get("/styleguide").templates}

    assert {f"components/{path.name}" for path in COMPONENTS.glob("*.html")} - shown == set()
