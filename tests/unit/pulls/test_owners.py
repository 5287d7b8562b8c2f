"""Who owns what, as `[owners]` of pipeline.toml says."""

from __future__ import annotations

from webapp.pulls.rules.owners import OwnedChange, Owners, match_owners, read_owners

TEXT = """
[owners]
"/nyc/delays/*" = ["mira", "group:finance", "mira"]
"pipelines/*.py" = ["olek"]
"/nyc/delays/daily" = ["group:finance"]
"""


def test_names_are_of_people_but_for_those_of_groups() -> None:
    assert read_owners(TEXT) == {
        "/nyc/delays/*": Owners(("mira",), ("finance",)),
        "pipelines/*.py": Owners(("olek",)),
        "/nyc/delays/daily": Owners((), ("finance",)),
    }
    assert read_owners(TEXT)["/nyc/delays/*"].words == "mira, the group finance"


def test_what_publication_refuses_names_nobody() -> None:
    for text in ("", "[owners", "owners = 5", '[owners]\n"/a" = "mira"\n'):
        assert read_owners(text) == {}
    assert read_owners('[owners]\n"/a" = ["mira", 5]\n') == {"/a": Owners(("mira",))}


def test_patterns_fit_datasets_or_files() -> None:
    changes = match_owners(read_owners(TEXT), ["/nyc/delays/daily", "pipelines/delays.py", "notes.md", "/nyc/fleet"])
    assert changes == [
        OwnedChange("/nyc/delays/*", Owners(("mira",), ("finance",)), ("/nyc/delays/daily",)),
        OwnedChange("/nyc/delays/daily", Owners((), ("finance",)), ("/nyc/delays/daily",)),
        OwnedChange("pipelines/*.py", Owners(("olek",)), ("pipelines/delays.py",)),
    ]
