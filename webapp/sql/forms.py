"""Fields of the page on which SQL is written."""

from __future__ import annotations

from django import forms

from webapp.sql.queries import MAX_SQL


class QueryForm(forms.Form):
    """A text of SQL and the branch that it reads."""

    branch = forms.CharField(max_length=200)
    sql = forms.CharField(
        max_length=MAX_SQL, strip=False, error_messages={"required": "Write a query first."}, widget=forms.Textarea
    )
