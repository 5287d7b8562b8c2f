"""Forms of the pages of repositories. They check shape only; services decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms

from webapp.core.numbers import read_count
from webapp.repositories.rules.checks import CHECKS
from webapp.repositories.rules.starters import EMPTY, STARTERS
from webapp.repositories.rules.webhooks import EVENTS, SHAPE_CHOICES, TRIBUTARY

if TYPE_CHECKING:
    from webapp.repositories.models import Protection

ROLES = [
    ("reader", "Reader: sees code, data and pull requests"),
    ("writer", "Writer: also commits and builds on branches"),
    ("maintainer", "Maintainer: also members, protections and master"),
]
_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off", "autocapitalize": "off"}


class NewRepositoryForm(forms.Form):
    """What makes a repository."""

    name = forms.CharField(
        max_length=100, help_text="Letters, digits, '-' and '_'. It also names its dataset folder.", strip=True
    )
    description = forms.CharField(max_length=500, required=False)
    template = forms.ChoiceField(
        label="Start with",
        choices=list(STARTERS.items()),
        widget=forms.RadioSelect,
        initial=EMPTY,
    )


class DescriptionForm(forms.Form):
    """What a repository is about."""

    description = forms.CharField(max_length=500, required=False)


class BranchForm(forms.Form):
    """What makes a branch."""

    name = forms.CharField(max_length=300, strip=True)
    start_point = forms.CharField(max_length=300, required=False, strip=True)
    open_editor = forms.BooleanField(required=False)
    path = forms.CharField(max_length=2000, required=False)


class DeleteBranchForm(forms.Form):
    """Whether the dataset branches of a deleted branch go too."""

    name = forms.CharField(max_length=300)
    data = forms.ChoiceField(choices=[("delete", "delete"), ("keep", "keep")])  # type: ignore[assignment]  # collected


MAX_DRAFTS = 30
"""Files of one commit that the editor carries beside the one that is open."""


class EditForm(forms.Form):
    """A file with the message and branch of its commit, and the other files that go into it."""

    path = forms.CharField(max_length=2000, required=False, strip=False)
    content = forms.CharField(required=False, strip=False, widget=forms.Textarea)
    message = forms.CharField(max_length=300, strip=True)
    details = forms.CharField(max_length=10_000, required=False, widget=forms.Textarea)
    target = forms.ChoiceField(choices=[("direct", "direct"), ("new", "new")])
    branch = forms.CharField(max_length=300, required=False, strip=True)
    head = forms.CharField(max_length=40)
    source = forms.CharField(max_length=2000, required=False)
    """Where the file lies that is open; empty for a new one."""

    def list_drafts(self) -> list[dict[str, str]]:
        """Return the files that the form carries beside the open one; fields of each have its number."""
        numbers = [name.removeprefix("draft-target-") for name in self.data if name.startswith("draft-target-")]
        return [
            {part: self.data.get(f"draft-{part}-{number}", "").replace("\0", "") for part in ("path", "target", "text")}
            for number in numbers
        ]

    def clean(self) -> dict[str, object]:
        """Ask for the name of a new branch where one is wanted."""
        fields = super().clean() or {}
        if fields.get("target") == "new" and not fields.get("branch"):
            self.add_error("branch", "Name the new branch.")
        if len(self.list_drafts()) > MAX_DRAFTS:
            self.add_error(None, f"A commit of the editor has at most {MAX_DRAFTS + 1} files. Use Git for more.")
        return fields

    @property
    def full_message(self) -> str:
        """Return the message with its details."""
        details = str(self.cleaned_data["details"]).replace("\r\n", "\n").strip()
        return f"{self.cleaned_data['message']}\n\n{details}".strip()


class MemberForm(forms.Form):
    """What gives a role."""

    user = forms.CharField(max_length=150, label="User name", strip=True)
    role = forms.ChoiceField(choices=ROLES, initial="writer")


class WebhookForm(forms.Form):
    """An address and the events that it receives."""

    url = forms.CharField(max_length=500, label="Address", widget=forms.TextInput(attrs=_MONO), strip=True)
    events = forms.MultipleChoiceField(
        choices=[(event, event.replace("_", " ")) for event in EVENTS],
        initial=list(EVENTS),
        widget=forms.CheckboxSelectMultiple,
    )
    shape = forms.ChoiceField(
        choices=SHAPE_CHOICES,
        required=False,
        help_text="For Slack an incoming webhook, for Teams a workflow's address.",
    )
    secret = forms.CharField(
        required=False,
        max_length=200,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Signs what is sent: X-Tributary-Signature-256 is the HMAC of the body.",
    )

    def clean_shape(self) -> str:
        """Take the usual one where a page of before this choice is sent."""
        return self.cleaned_data["shape"] or TRIBUTARY


class ProtectionForm(forms.Form):
    """What it takes to move a branch."""

    branch = forms.CharField(max_length=300, widget=forms.TextInput(attrs=_MONO), strip=True)
    approvals = forms.IntegerField(
        min_value=0, max_value=20, initial=1, label="Approvals by others", help_text="Nobody approves their own change."
    )
    groups = forms.CharField(
        required=False, max_length=1000, help_text="Names of groups, separated by commas; one of each must approve."
    )
    paths = forms.CharField(
        required=False,
        max_length=5000,
        label="Path rules",
        widget=forms.Textarea(attrs={**_MONO, "rows": 3}),
        help_text="One a line: pattern, group, number of its members who approve. For example: pipelines/finance/ finance 2",
    )
    checks = forms.CharField(
        required=False,
        max_length=1000,
        label="Required checks",
        help_text=f"Of {', '.join(CHECKS)}, those that programs report, and queries such as checks/rows;"
        " separated by commas.",
    )
    resolved_threads = forms.BooleanField(
        required=False, label="Every thread on code or data is resolved before the merge"
    )
    owners = forms.BooleanField(
        required=False, label="Owners of what is changed approve, as [owners] in pipeline.toml names them"
    )
    allow_bypass = forms.BooleanField(
        required=False, initial=True, label="Maintainers may commit directly and merge past a requirement"
    )

    def clean_paths(self) -> list[dict[str, object]]:
        """Read one rule a line."""
        rules: list[dict[str, object]] = []
        for line in str(self.cleaned_data["paths"]).splitlines():
            words = line.split()
            if not words:
                continue
            if len(words) not in {2, 3} or (len(words) == 3 and read_count(words[2], most=20) is None):
                message = f"'{line}' is not a rule: write pattern, group and number."
                raise forms.ValidationError(message)
            rules.append({"pattern": words[0], "group": words[1], "approvals": int((*words, "1")[2])})
        return rules

    def clean_groups(self) -> list[str]:
        """Split the names."""
        return _split(self.cleaned_data["groups"])

    def clean_checks(self) -> list[str]:
        """Split the names."""
        return _split(self.cleaned_data["checks"])


def write_protection(protection: Protection) -> dict[str, object]:
    """Return the fields of `ProtectionForm` that make a protection as it is."""
    rules = (f"{rule['pattern']} {rule['group']} {rule['approvals']}" for rule in protection.paths)
    return {
        "branch": protection.branch,
        "approvals": str(protection.approvals),
        "groups": ", ".join(protection.groups.values_list("name", flat=True)),
        "paths": "\n".join(rules),
        "checks": ", ".join(protection.checks),
        "resolved_threads": protection.resolved_threads and "on",
        "owners": protection.owners and "on",
        "allow_bypass": protection.allow_bypass and "on",
    }


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
