"""Made-up data for the style guide."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace as Made
from typing import Any

from django import forms

from webapp.comparisons.diffs.schema import diff_schemas
from webapp.core import clock
from webapp.core.moves import list_nouns
from webapp.core.numbered import CutList
from webapp.git.diff import FileDiff, Hunk, Line, Span
from webapp.pulls.rules.suggestions import Suggestion


class ExampleForm(forms.Form):
    """A field of each kind."""

    name = forms.CharField(help_text="Letters, digits and hyphens.")
    role = forms.ChoiceField(choices=[("reader", "Reader"), ("writer", "Writer")])
    description = forms.CharField(widget=forms.Textarea, required=False)
    is_open = forms.BooleanField(label="Everybody may read it", required=False)

    def clean(self) -> None:
        """Refuse all of it, so that the errors of a whole form are seen."""
        super().clean()
        self.add_error(None, "The two do not go together.")


def read_guide() -> dict[str, Any]:
    """Return one example of everything."""
    now = clock.now()
    return {
        "nav": "",
        "now": now,
        "ago": now - timedelta(minutes=48, seconds=7),
        "nouns": {noun: list(kind) for noun, kind in list_nouns().items()},
        "tones": ["fresh", "stale", "void"],
        "repo_bar": {"name": "nyc", "tab": "pulls"},
        "verdict": _verdict(),
        "events": _events(now),
        "merge": _merge(),
        "remark": _remark(now),
        "statuses": ["added", "deleted", "renamed", "modified"],
        "viewings": [Made(place="a", content="1", is_viewed=False), Made(place="b", content="1", is_viewed=True)],
        "names": ["master", "feature/late"],
        "right": ExampleForm(auto_id="right-%s"),
        "wrong": ExampleForm({"role": "owner"}, auto_id="wrong-%s"),
        "file": _file("pipelines/clean.py"),
        "split_file": _file("pipelines/late.py"),
        "schema": _schema(),
        "rows": _rows(),
        "chart": _chart(),
        "facts": [
            Made(name="Rows", value="5,432", note="+12 to master"),
            Made(name="Size", value="121 kB", note="12 files"),
        ],
        "tabs": [
            Made(name="Conversation", url="#", icon="comment", count=4, hotkey=""),
            Made(name="Schema", url="#", icon="rows", count=0, hotkey=""),
            Made(name="Data", url="#", icon="table", count=4, hotkey=""),
        ],
        "picker": Made(
            branches=[Made(name="master", url="#", note="5 JobSpecs"), Made(name="feature/late", url="#", note="#12")]
        ),
        "log": Made(
            lines=[
                Made(n=1, t="14:02:42.018", text="job 5 attempt 1, profile light", level=""),
                Made(n=2, t="14:02:45.102", text="pipelines/weather.py:58 warning: 364 of 365 days", level="warning"),
                Made(n=3, t="14:02:50.733", text='expectation "one row a day" failed: 4 rows', level="error"),
                Made(n=4, t="14:02:50.741", text="\x1b[32mtransaction aborted\x1b[0m, readers saw nothing", level=""),
            ],
            after=4,
            status="4 lines, end",
            download_url="#",
        ),
        "nodes": _nodes(),
        "cut": CutList(["/nyc/delays/daily", "/nyc/delays/hourly"], 20),
        "snippet": 'catalog.load_table("nyc.delays.daily").scan().to_arrow()',
        "markdown": "Flights **without** `dep_time` were dropped.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "blanks": "  padded ",
        "long_text": "x" * 120,
    }


def _verdict() -> list[Made]:
    return [
        Made(
            kind="ok",
            icon="check-circle-fill",
            text="Build 318 passed",
            note="4 of 4 jobs, current",
            url="#",
            delta=None,
        ),
        Made(kind="bad", icon="x-circle-fill", text="0 of 1 approvals", note="1 void", url="#", delta=None),
        Made(kind="info", icon="rows", text="", note="rows in 4 datasets", url="#", delta=(8268, 0, 1821)),
        Made(kind="bad", icon="alert", text="1 breaking change", note="of 3 schema changes", url="#", delta=None),
        Made(kind="warn", icon="history", text="1 of 4 diffs is stale", note="master moved", url="#", delta=None),
    ]


def _events(now: Any) -> list[Made]:
    return [
        Made(card="opened", id="e1", actor="ines", at=now, text="opened this pull request", body="The mean skips `null`.", labels=[]),
        Made(
            card="", id="e2", actor="ines", at=now, icon="git-commit", text="pushed 1 commit", labels=[],
            commits=[Made(sha="6e1d2b4aa", subject="Keep flights without a departure time", url="#", state="ok", note="1 JobSpec published")],
        ),
        Made(card="", id="e3", at=now, icon="check", badge="ok", url="#", link="Build 315", text="passed in 3 min 04 s", labels=[]),
        Made(card="", id="e4", at=now, icon="circle-slash", badge="void", text="The approval of mira became void", labels=[Made(text="Void", kind="bad")], note="the head moved from a07c513 to 9b3f07e"),
        Made(card="comment", id="e5", actor="mira", at=now, text="commented", body="Why so late?", labels=[], quote=_quote()),
    ]  # fmt: skip


def _quote() -> Made:
    rows = _rows()
    return Made(row=Made(columns=rows.columns, rows=[Made(**{**vars(rows.rows[0]), "n": 0})]))


def _remark(now: Any) -> Made:
    def say(number: int, author: str, body: str, **more: Any) -> Made:
        about = {"repository": "nyc", "pull": 12, "at": now, "where": "", "quoted": "", "is_outdated": False}
        state: dict[str, Any] = {
            "key": str(number),
            "resolved_by": "",
            "edited_at": None,
            "deleted_by": "",
            "suggestion": None,
            "replies": [],
        }
        rights = {"may_resolve": True, "may_edit": True, "may_delete": True}
        return Made(id=number, thread=1, author=author, body=body, **{**about, **state, **rights, **more})

    suggested = Suggestion("Then **mark** them:", ("    return flights.mark(late=True)",), "")
    change = Made(text=suggested, old=["    return flights.mark()"], may_commit=True)
    replies = [
        say(2, "mira", "Because `0` is a value.", edited_at=now),
        say(3, "olek", "", deleted_by="olek"),
        say(4, "mira", "", suggestion=change),
        say(5, "ines", "That is better.", key="pending-5", is_pending=True),
    ]
    quoted = "    return flights.mark()"
    return say(1, "ines", "Why **not** drop them?", where="line 2", quoted=quoted, is_outdated=True, replies=replies)


def _merge() -> Made:
    return Made(
        tone="bad",
        title="Merging is blocked for 2 reasons",
        text="These are all of them. The box updates by itself.",
        blockers=[
            Made(severity="bad", icon="shield-lock", title="An approval is missing", message="The rules of master ask for 1.", fix="Review", fix_url="#", fix_post=""),
            Made(severity="warn", icon="history", title="Not built with the code of the head", message="/nyc/delays/daily", fix="Build", fix_url="", fix_post="#", fields=()),
        ],
        met=["No conflict with master", "The code publishes"],
        subject=Made(post_url="#", head="", effect=Made(datasets=2, affected=1, total=3, target="master")),
        may_write=True, may_merge=False, may_bypass=True,
    )  # fmt: skip


def _file(path: str) -> FileDiff:
    lines = (
        Line("context", 1, 1, "def clean(flights):", (Span("def", "k"), Span(" "), Span("clean", "nf"), Span("(flights):"))),
        Line("deleted", 2, None, "    return flights.drop_null()", (Span("    return flights."), Span("drop_null", "", marked=True), Span("()"))),
        Line("added", None, 2, "    return flights.mark()", (Span("    return flights."), Span("mark", "", marked=True), Span("()"))),
    )  # fmt: skip
    hunk = Hunk(1, 2, 1, 2, "pipelines", lines)
    return FileDiff(path, path, "modified", 0, 0, "", "", False, 1, 1, (hunk,))


def _schema() -> Any:
    def column(number: int, name: str, kind: str, *, required: bool = False) -> dict[str, Any]:
        return {"id": number, "name": name, "type": kind, "required": required}

    before = [
        column(1, "day", "date", required=True),
        column(2, "flights", "int"),
        column(3, "cur", "string"),
        column(4, "flag", "boolean"),
    ]
    after = [
        column(1, "day", "date"),
        column(2, "flights", "long"),
        column(3, "currency", "string"),
        column(5, "cancelled", "long"),
    ]
    return diff_schemas({"fields": before}, {"fields": after})


def _rows() -> Made:
    def column(name: str, note: str, *, pin: bool = False, number: bool = False, state: str = "same") -> Made:
        return Made(name=name, note=note, pin=pin, is_number=number, state=state)

    def cell(
        after: Any, before: Any = None, *, state: str = "same", css: str = "", pin: bool = False, delta: str = ""
    ) -> Made:
        return Made(after=after, before=before, state=state, css=css, pin=pin, num="num" in css, delta=delta, title="")

    return Made(
        columns=[column("day", "date · key", pin=True), column("carrier", "string"), column("flights", "long", number=True)],
        rows=[
            Made(n=1, css="up", sign="~", word="changed", copies=1, cells=[cell("2013-01-03", pin=True), cell("AA"), cell(95, 89, state="changed", css="num chg", delta="+6")]),
            Made(n=2, css="ins", sign="+", word="added", copies=1, cells=[cell("2013-01-04", pin=True), cell(""), cell(None, state="inserted", css="num")]),
            Made(n=3, css="rm", sign="−", word="removed", copies=1, cells=[cell(None, "2013-01-05", pin=True, state="deleted"), cell(None, "  9E", state="deleted"), cell(None, 7, state="deleted", css="num")]),
        ],
    )  # fmt: skip


def _chart() -> Made:
    bars = []
    for index, (before, after) in enumerate([(10, 12), (60, 66), (100, 92), (30, 31), (4, 9)]):
        bars.append(
            Made(x=60 + index * 64, y=120 - before, width=24, height=before, side="m", title=f"{before} on master")
        )
        bars.append(
            Made(x=86 + index * 64, y=120 - after, width=24, height=after, side="b", title=f"{after} on the branch")
        )
    return Made(
        id="guide-chart", title="mean_delay", width=400, height=140, bars=bars, before_name="master", after_name="branch",
        ticks=[Made(x=60, y=136, text="−20", anchor="start"), Made(x=370, y=136, text="80", anchor="end")],
        grid=[Made(y=20, ty=24, text="100"), Made(y=120, ty=124, text="0")],
        rows=[Made(label="−20 to 0", before=10, after=12)],
    )  # fmt: skip


def _nodes() -> list[Made]:
    return [
        Made(id="a", inputs="", kind="src", icon="database", title="raw/flights", sub="t 3e07aa · master", change=""),
        Made(id="b", inputs="a", kind="ok", icon="check-circle-fill", title="clean/flights", sub="1 · Completed · 27 s", change="modified"),
        Made(id="c", inputs="b", kind="run", icon="sync", title="delays/daily", sub="2 · Running", change="added"),
        Made(id="d", inputs="b", kind="bad", icon="x-circle-fill", title="delays/by_carrier", sub="3 · Failed", change="affected"),
        Made(id="e", inputs="c d", kind="abort", icon="stop", title="reports/morning", sub="4 · Aborted · job 3 failed", change=""),
    ]  # fmt: skip
