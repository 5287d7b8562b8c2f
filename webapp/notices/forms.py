"""Fields of the page of settings."""

from __future__ import annotations

from typing import Any

from django import forms

from webapp.notices.rules.facts import CHANNEL_CHOICES, Reason


class WishesForm(forms.Form):
    """Where somebody wants to be told what: a field for each reason."""

    address = forms.EmailField(
        required=False, label="E-mail address", help_text="Empty: the address of your account, if it has one."
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for reason in Reason:
            self.fields[reason.value] = forms.ChoiceField(
                choices=CHANNEL_CHOICES, label=reason.label, help_text=reason.sentence
            )

    def read_channels(self) -> dict[str, str]:
        """Return reason → channel."""
        return {reason.value: self.cleaned_data[reason.value] for reason in Reason}
