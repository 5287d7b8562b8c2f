"""The check of new passwords against a list of common ones."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import password_validation

from webapp.accounts.rules.passwords import list_plainer


class CommonPasswordValidator(password_validation.CommonPasswordValidator):
    """Rejects common passwords, also with lookalikes for letters or with characters added."""

    def validate(self, password: str, user: Any = None) -> None:
        """Look for the password and its plainer forms in Django's list, which has only some of their disguises."""
        for plainer in list_plainer(password):
            super().validate(plainer, user)
