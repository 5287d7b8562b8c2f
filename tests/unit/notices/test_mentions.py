"""Whom a text names."""

from __future__ import annotations

import pytest

from webapp.notices.rules.mails import MOST_TRIES, pause_after
from webapp.notices.rules.mentions import MOST, find_mentions


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@ines, look", {"ines"}),
        ("(@Ines) and @ines.", {"ines"}),
        ("@jo.doe+1 @a_b-c", {"jo.doe+1", "a_b-c"}),
        ("mail ines@example.org, see https://x.example/@ines", set()),
        ("`@ines`", set()),
        ("```\n@ines\n```\n@olek", {"olek"}),
        ("~~~sql\nselect @x\n~~~", set()),
        ("``a ` @ines``", set()),
        ("`two\nlines @ines`", set()),
        ("    @ines indented", set()),
        ("- item\n\n  ```\n  @ines\n  ```\n  @olek", {"olek"}),
        ("> ```\n> @ines\n> ```\n> @olek", {"olek"}),
        ("````\n```\n@ines\n````", set()),
        ("```\n@ines, not closed", set()),
        ("```py\n@ines\n~~~\n@ines\n```", set()),
        (r"\`@ines\`", {"ines"}),
        ("`not code @ines", {"ines"}),
        ("a `x` @ines `y` b", {"ines"}),
        ("[see @ines](https://example.org) <ines@example.org> ![@ines](a.png)", set()),
        ("https://example.org/?by=,@ines", set()),
        ("- [ ] @ines\n\n|a|\n|-|\n|**@olek**|", {"ines", "olek"}),
        ("@ alone, @... and @@ines", set()),
        ("", set()),
    ],
)
def test_names_stand_behind_an_at_outside_of_code(text: str, names: set[str]) -> None:
    assert find_mentions(text) == names


def test_a_text_names_only_so_many() -> None:
    assert len(find_mentions(" ".join(f"@u{number}" for number in range(MOST + 1)))) == MOST


def test_a_mail_waits_longer_each_time_until_it_is_given_up() -> None:
    pauses = [pause_after(tries) for tries in range(1, MOST_TRIES)]
    assert None not in pauses
    assert pauses == sorted(set(pauses))  # type: ignore[type-var]
    assert pause_after(MOST_TRIES) is None
