"""Forms of pull requests. Fields are declared here; services write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from django import forms

from webapp.git.conflicts import TAKES, Resolution, Take
from webapp.pulls.queries.expected import Expected
from webapp.pulls.rules import states
from webapp.repositories.rules.texts import normalise_lines, restore_lines

if TYPE_CHECKING:
    from django.http import QueryDict

EACH = "each"
MAX_PLACES = 10_000
"""Of a file that conflicts, for which something is chosen."""
_TAKES: dict[str, Take] = {take: take for take in TAKES}


class NewPullForm(forms.Form):
    """Title and text of a new pull request; the branches are chosen above it."""

    title = forms.CharField(max_length=250, help_text="What it changes, in a few words.")
    body = forms.CharField(
        label="Description", required=False, widget=forms.Textarea(attrs={"rows": 6}), help_text="Markdown."
    )
    draft = forms.BooleanField(required=False, label="A draft: not ready for review yet")


class EditPullForm(forms.Form):
    """Title, text and draft of a pull request; what is not sent stays."""

    title = forms.CharField(max_length=250, required=False)
    body = forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 8}))
    draft = forms.CharField(required=False)
    expected_version = forms.CharField(required=False)


class CommentForm(forms.Form):
    """A remark."""

    body = forms.CharField(widget=forms.Textarea)


class EditCommentForm(CommentForm):
    """Another text of a comment, or its end."""

    expected_version = forms.CharField(required=False)


class RemarkForm(CommentForm):
    """A remark on a line of code, or on a dataset, one of its rows or a cell of that."""

    path = forms.CharField(required=False, strip=False)
    start_line = forms.IntegerField(required=False, min_value=1)
    line = forms.IntegerField(required=False, min_value=1)
    side = forms.ChoiceField(required=False, choices=[("head", "After"), ("base", "Before")])
    dataset = forms.CharField(required=False)
    column = forms.CharField(required=False)
    compared = forms.CharField(required=False)
    expected_head = forms.CharField(required=False)
    expected_transaction = forms.CharField(required=False)
    expected_before = forms.CharField(required=False)

    def expected(self) -> Expected:
        """Return what the page of the form showed: a comment on lines stays with them."""
        fields = {name: self.cleaned_data.get(name) for name in self.data if name.startswith("expected_")}
        return Expected.pop(fields, keeps_lines=True)

    def anchor(self) -> dict[str, Any]:
        """Return what it is about; the columns of a key come as `key.<column>`."""
        names = (
            ("path", "start_line", "line", "side")
            if self.cleaned_data.get("path")
            else ("dataset", "column", "compared")
        )
        anchor = {name: value for name in names if (value := self.cleaned_data.get(name)) not in ("", None)}
        key = {name[len("key.") :]: value for name, value in self.data.items() if name.startswith("key.") and value}
        return {**anchor, "key": key} if key and "dataset" in anchor else anchor


class ReviewForm(forms.Form):
    """A verdict with an optional remark."""

    verdict = forms.ChoiceField(choices=states.VERDICT_CHOICES)
    body = forms.CharField(required=False, widget=forms.Textarea)
    expected_head = forms.CharField(required=False)
    expected_target = forms.CharField(required=False)
    expected_data = forms.CharField(required=False)


class VerdictForm(forms.Form):
    """What a reviewer says of one dataset, with what they looked at."""

    dataset = forms.CharField()
    verdict = forms.CharField()
    reason = forms.CharField(required=False, widget=forms.Textarea)
    expected_transaction = forms.CharField(required=False)


class LoadForm(forms.Form):
    """Whether merging loads the files of a dataset, with what somebody looked at."""

    dataset = forms.CharField()
    load = forms.BooleanField(required=False)
    expected_transaction = forms.CharField(required=False)
    expected_target = forms.CharField(required=False)


class UpdateForm(forms.Form):
    """Which head somebody looked at who brings a branch up to date, and how it is done."""

    expected_head = forms.CharField(required=False)
    method = forms.ChoiceField(choices=states.UPDATE_CHOICES, required=False)


class SuggestionsForm(forms.Form):
    """What somebody looked at who commits suggestions, and when."""

    message = forms.CharField(required=False)
    expected_head = forms.CharField(required=False)
    looked_at = forms.DateTimeField(required=False)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What somebody chose for a file that conflicts."""

    take: str
    """ours, theirs, both, each, hand, or nothing yet."""
    content: str
    ends: str = ""
    takes: tuple[str, ...] = ()
    """What was chosen for each place; empty where nothing was yet."""

    def as_resolution(self, path: str) -> Resolution:
        """Return what it asks of Git."""
        if self.take in _TAKES:
            return Resolution(path=path, take=_TAKES[self.take])
        if self.take == EACH:
            return Resolution(path=path, takes=tuple(_TAKES[take] for take in self.takes if take in _TAKES))
        return Resolution(path=path, content=restore_lines(self.content, old=b"\r\n" if self.ends == "crlf" else b""))


class SettleForm(UpdateForm):
    """What becomes of each file that conflicts, and which heads somebody looked at."""

    expected_target = forms.CharField(required=False)

    def settlements(self) -> dict[str, Settlement]:
        """Return what was chosen by path; the fields of a file carry its number. What was left open is not there."""
        chosen = {}
        data = cast("QueryDict", self.data)
        for number in (name.removeprefix("path-") for name in data if name.startswith("path-")):
            take = data.get(f"take-{number}", "")
            if take:
                content = normalise_lines(data.get(f"content-{number}", ""))
                takes = tuple(data.getlist(f"places-{number}")[:MAX_PLACES])
                chosen[str(data[f"path-{number}"])] = Settlement(take, content, data.get(f"ends-{number}", ""), takes)
        return chosen


class MergeForm(forms.Form):
    """How to merge."""

    method = forms.ChoiceField(choices=states.METHOD_CHOICES)
    rebuild = forms.ChoiceField(choices=states.REBUILD_CHOICES)
    expected_head = forms.CharField(required=False)
    bypass = forms.BooleanField(required=False)
