"""Fields of the account pages."""

from __future__ import annotations

from typing import Any

from django import forms

from webapp.accounts.rules.themes import COLOR_MODES, DARK_THEMES, LIGHT_THEMES


class SettingsForm(forms.Form):
    """How pages look for the user."""

    color_mode = forms.ChoiceField(choices=COLOR_MODES, label="Colours")
    light_theme = forms.ChoiceField(choices=LIGHT_THEMES, label="Theme by day")
    dark_theme = forms.ChoiceField(choices=DARK_THEMES, label="Theme by night")
    hotkeys = forms.BooleanField(required=False, label="Single-key shortcuts")


class TokenForm(forms.Form):
    """A new token."""

    name = forms.CharField(max_length=100, label="Name", help_text="What it is for, such as: notebook")
    days = forms.TypedChoiceField(
        choices=[(7, "7 days"), (30, "30 days"), (90, "90 days"), (0, "Never")], coerce=int, initial=30, label="Expires"
    )
    scope = forms.ChoiceField(
        choices=[("", "Everything you may do"), ("read", "Only read"), ("write", "Read and write, no settings")],
        required=False,
        label="Rights",
    )


class PasswordForm(forms.Form):
    """Another password for oneself."""

    current = forms.CharField(
        max_length=1000,
        strip=False,
        label="Current password",
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    password = forms.CharField(
        max_length=1000,
        strip=False,
        label="New password",
        help_text="Eight characters or more, none of the common ones, and not like your name.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    repeated = forms.CharField(
        max_length=1000,
        strip=False,
        label="New password again",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        """Refuse two different new passwords."""
        passwords = self.cleaned_data
        if passwords.get("password") != passwords.get("repeated"):
            self.add_error("repeated", "The two new passwords differ.")
        return passwords


class NewUserForm(forms.Form):
    """A user who can sign in."""

    username = forms.CharField(max_length=150, label="User name", widget=forms.TextInput(attrs={"autocomplete": "off"}))
    password = forms.CharField(
        max_length=1000,
        strip=False,
        label="Password",
        help_text="They can change it under Settings, Password.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class NewPasswordForm(forms.Form):
    """Another password for somebody else."""

    password = forms.CharField(
        max_length=1000,
        strip=False,
        label="New password",
        help_text="Ends all sessions of this user.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class LoginForm(forms.Form):
    """Name and password."""

    username = forms.CharField(
        max_length=150, label="User name", widget=forms.TextInput(attrs={"autocomplete": "username"})
    )
    password = forms.CharField(
        max_length=1000,
        strip=False,
        label="Password",
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
