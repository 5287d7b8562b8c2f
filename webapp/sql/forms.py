"""Fields of the page on which SQL is written."""

from __future__ import annotations

from django import forms

from webapp.sql.queries import MAX_SQL
from webapp.sql.rules.checks import FORMS


class QueryForm(forms.Form):
    """A text of SQL, the branch that it reads, and the one that it is compared with."""

    branch = forms.CharField(max_length=200)
    base = forms.CharField(max_length=200, required=False)
    sql = forms.CharField(
        max_length=MAX_SQL, strip=False, error_messages={"required": "Write a query first."}, widget=forms.Textarea
    )


class CheckForm(QueryForm):
    """A text of SQL that is to be saved as a check, what it is called and expects, and where it is committed."""

    name = forms.CharField(max_length=100, error_messages={"required": "A check needs a name."})
    expects = forms.CharField(max_length=40, error_messages={"required": f"Say what it expects: {FORMS}."})
    new_branch = forms.CharField(max_length=200, required=False)
