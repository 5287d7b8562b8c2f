"""What a reader may see of rows: no spelling of a hidden name shows its value, and all else stays as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webapp.accounts.rules.sight import EVERYTHING, RowSight

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
ROWS = st.dictionaries(NAMES, st.integers())


@given(hidden=st.sets(NAMES, max_size=4), row=ROWS)
def test_a_masked_row_has_its_names_and_no_hidden_value(hidden: set[str], row: dict[str, int]) -> None:
    sight = RowSight.without(hidden)
    masked = sight.mask({**row, **dict.fromkeys(hidden, 7)})
    assert list(masked) == list({**row, **dict.fromkeys(hidden, 7)})
    assert all(masked[name] is None for name in hidden)
    assert all(masked[name] == row[name] for name in row if not sight.hides(name))
    assert set(sight.pick_hidden(masked)) >= hidden


def test_names_are_hidden_in_any_case_and_with_what_is_inside_them() -> None:
    sight = RowSight.without(["Email", "contact.phone"])
    assert all(map(sight.hides, ("email", "EMAIL", "email.domain", "contact", "contact.name", "Contact.Phone")))
    assert sight.hides(None, "other", "email")
    assert not sight.hides(None, "emails", "phone")


def test_nothing_is_hidden_from_who_sees_everything() -> None:
    assert EVERYTHING.mask({"email": 1}) == {"email": 1}
    assert not EVERYTHING.hides("email")
