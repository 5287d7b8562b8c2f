"""What TRIBUTARY_LOCATIONS may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.config.locations import read_locations

BUCKET = "s3://bucket/warehouse"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "link").symlink_to(tmp_path / "home")
    return tmp_path / "home"


def read(text: str, home: Path, warehouse: str = "") -> tuple[str, ...]:
    return read_locations(text, warehouse=warehouse or (home / "warehouse").as_uri(), home=home)


def test_prefixes_are_separated_by_commas_and_white_space_and_none_is_the_default(home: Path) -> None:
    assert read("", home) == ()
    assert read("file:/lake, file:///pond/a\n file:/sea/", home) == ("file:///lake", "file:///pond/a", "file:///sea")
    assert read("s3://bucket/lake", home, BUCKET) == ("s3://bucket/lake",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(
            (text, "is neither")
            for text in ("/lake", "file:///", "file:lake", "file://host/lake", "s3://bucket", "lake")
        ),
        *(
            (text, "is neither")
            for text in ("file:/la%6be", "file:/a/../b", "file:/a//b", "file:/a?b", "s3a://bucket/x")
        ),
        ("s3://bucket/lake", "is not kept like the warehouse"),
        ("file:{home}", "lies inside the warehouse"),
        ("file:{home}/warehouse/a", "lies inside the warehouse"),
        ("file:{home}/other", "lies inside the home"),
        ("file:{above}", "lies inside the warehouse"),
        ("file:{above}/link/lake", "leads through a link: name file:///"),
        ("file:/lake file:///lake/a", "lies inside file:///lake, another of them"),
        ("file:/lake file:///lake", "lies inside file:///lake, another of them"),
    ],
)
def test_a_prefix_that_cannot_be_used_is_refused_in_one_line(text: str, why: str, home: Path) -> None:
    with pytest.raises(SystemExit, match=why) as refused:
        read(text.format(home=home, above=home.parent), home)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("TRIBUTARY_LOCATIONS names ")


@pytest.mark.parametrize(
    "text", ["s3://other/lake", "file:/lake", "s3://bucket/warehouse/lake", "s3://bucket/warehouse"]
)
def test_a_prefix_beside_a_bucket_is_in_it(text: str, home: Path) -> None:
    with pytest.raises(SystemExit, match="warehouse"):
        read(text, home, BUCKET)
    assert read("s3://bucket/warehouse2", home, BUCKET)
