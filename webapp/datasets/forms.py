"""Forms of the pages of datasets. They check shape only; services decide."""

from __future__ import annotations

from django import forms

from webapp.datasets.rules.transactions import TYPE_CHOICES

_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off", "autocapitalize": "off"}


class NewDatasetForm(forms.Form):
    """What makes a dataset."""

    path = forms.CharField(
        max_length=400,
        strip=True,
        help_text="Two or more parts, such as /nyc/delays/daily. The first part decides whose rights hold.",
        widget=forms.TextInput(attrs={**_MONO, "placeholder": "/folder/name"}),
    )
    description = forms.CharField(max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 3}))


class NewBranchForm(forms.Form):
    """What makes a branch of a dataset."""

    name = forms.CharField(max_length=300, strip=True)
    start = forms.CharField(max_length=300, required=False, strip=True)

    def read_start(self) -> dict[str, str]:
        """Return the parent or the transaction that the branch starts from."""
        start = self.cleaned_data["start"]
        kind, _, value = start.partition(":")  # no name of a branch has a colon
        if kind == "transaction" and value:
            return {"transaction": value}
        return {"parent": start} if start else {}


class DeleteDatasetBranchForm(forms.Form):
    """Which branch to delete."""

    name = forms.CharField(max_length=300)


class BranchParentForm(forms.Form):
    """Which branch gets which parent; an empty one makes it a root."""

    name = forms.CharField(max_length=300)
    parent = forms.CharField(max_length=300, required=False)


class RestoreBranchForm(forms.Form):
    """Which deleted branch to bring back."""

    deleted = forms.IntegerField(min_value=1)


class NewTransactionForm(forms.Form):
    """What starts a transaction."""

    branch = forms.CharField(max_length=300)
    type = forms.ChoiceField(choices=TYPE_CHOICES)


class CloseTransactionForm(forms.Form):
    """Which open transaction to commit or abort."""

    transaction = forms.CharField(max_length=40)
