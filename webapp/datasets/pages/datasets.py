"""Contexts of the pages, with permissions already decided."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Q
from django.urls import reverse

from webapp.accounts import permissions
from webapp.accounts.models import Folder
from webapp.catalog.rules.errors import DamagedTable
from webapp.core.choices import Choices, Picker, choose
from webapp.core.errors import AppError, find_refusal
from webapp.core.names import MASTER
from webapp.core.numbered import CutList, KeptPage
from webapp.datasets import ports, queries
from webapp.datasets.models import DatasetBranch
from webapp.datasets.pages.table import TablePanel, read_table
from webapp.datasets.permissions import check_abort, check_commit
from webapp.datasets.queries import history
from webapp.datasets.queries.details import SchemaView, get_schema, list_branches
from webapp.datasets.queries.preview import Preview, PreviewRequest, read_preview
from webapp.datasets.rules import schemas, snippets
from webapp.datasets.rules.transactions import TYPE_CHOICES
from webapp.runtime.object_store import is_object_location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, DeletedBranch, Transaction

PAGE_SIZE = 50
MOST_DELETED = 50
"""Deleted branches on the page; the REST API has all of them."""
MOST_STARTS = 20
"""Transactions that the form of a new branch offers."""
_BRANCHES = Count("branches", filter=~Q(branches__name__startswith=queries.INTERNAL_PREFIX))
TABS = (
    ("preview", "Preview", "table", "g d"),
    ("schema", "Schema", "rows", "g s"),
    ("history", "History", "history", "g c"),
    ("branches", "Branches", "git-branch", "g b"),
    ("catalog", "Catalog", "versions", "g t"),
    ("lineage", "Lineage", "workflow", "g l"),
    ("compare", "Compare", "git-compare", ""),
)
NUMERIC = frozenset({"int", "long", "float", "double", "decimal"})
TAB_NAMES = tuple(name for name, *_ in TABS)


@dataclass(frozen=True)
class DatasetRow:
    """A dataset in the list."""

    dataset: Dataset
    newest: Transaction | None
    """What master shows."""
    branches: int

    @property
    def name(self) -> str:
        """The path below its top folder."""
        return self.dataset.path.split("/", 2)[2]


@dataclass(frozen=True)
class FolderGroup:
    """The datasets of one top folder on this page of the list."""

    folder: str
    repository: str
    rows: Sequence[DatasetRow]


@dataclass(frozen=True)
class DatasetsPage:
    """The list of datasets."""

    nav: str
    repo_bar: Mapping[str, str] | None
    groups: Sequence[FolderGroup]
    filters: queries.DatasetFilter
    folders: Sequence[str]
    total: int
    unlisted: int
    """Others that have no data on master."""
    all_url: str
    """Where these are listed too."""
    previous_url: str
    next_url: str


@dataclass(frozen=True)
class Problem:
    """Why a panel shows no data."""

    title: str
    text: str


@dataclass(frozen=True)
class Facts:
    """The strip of facts about a branch."""

    rows: int | None
    difference: int | None
    """Rows more or fewer than master, on another branch."""
    bytes: int | None
    files: int | None
    columns: int | None
    schema_id: int | None
    newest: Transaction | None


@dataclass(frozen=True)
class DatasetPage:
    """The page of a dataset; of the panels only the chosen tab's is filled."""

    nav: str
    repo_bar: Mapping[str, str] | None
    dataset: Dataset
    folder_path: str
    name: str
    branch: str
    transaction: Transaction | None
    """The one asked for in place of a branch."""
    resolved: str
    exists: bool
    """Whether the branch is on this dataset; else it reads by fallback."""
    written: str
    """The branch that was written last, where the shown one has no columns yet; else empty."""
    picker: Picker
    facts: Facts
    tab: str
    tabs: Sequence[Mapping[str, Any]]
    current_tab: str
    can_write: bool
    can_delete: bool
    can_load: bool
    """Whether the reader may load a file on some branch."""
    load_url: str
    rights: str
    maker: Any | None
    """The JobSpec that makes it, where there is one whose code the reader may see."""
    keys: Sequence[str]
    """The columns by which rows are told apart; none where nobody has said so."""
    hidden_columns: Sequence[str]
    """What is hidden from the reader, to whom the catalog then names no files, whatever the branch."""
    snippets: Sequence[snippets.Snippet]
    open_transaction: Transaction | None
    may_commit: bool
    may_abort: bool
    types: Sequence[tuple[str, str]]
    """Of transactions that the reader may start on the branch; none where one is open, or they may not."""
    problem: Problem | None = None
    preview: Preview | None = None
    preview_rows: Sequence[Sequence[tuple[Any, bool, bool]]] = ()
    """Cells with whether they are set flush right, and whether what is in them is hidden."""
    row_urls: Sequence[str] = ()
    """Who changed each row; empty where rows have no key."""
    preview_pages: Mapping[str, str] | None = None
    q: str = ""
    search_problem: str = ""
    """What of the search is not understood."""
    sort: str = ""
    schema: SchemaView | None = None
    spec_text: str = ""
    order_text: str = ""
    tree: Sequence[history.TreeRow] = ()
    protected: history.SnapshotProtection | None = None
    history: history.History | None = None
    aborted: bool = True
    starts: Starts | None = None
    deleted: Sequence[DeletedBranch] = ()
    """Branches that can be brought back."""
    table: TablePanel | None = None


def read_datasets_page(
    principal: Principal, *, filters: queries.DatasetFilter, parameters: Mapping[str, str], repository: str = ""
) -> DatasetsPage:
    """Return a page of the list, of all datasets or of a repository's."""
    datasets = queries.list_datasets(principal, filters)
    folders = _list_folders(principal)
    if repository:
        permissions.check_repository(principal, repository, "read")
        mine = [name for name, owner in folders.items() if owner == repository]
        datasets = datasets.filter(queries.path_in_folders(mine))
        folders = dict.fromkeys(mine, repository)
    listed = datasets if filters.data else datasets.filter(queries.is_listed())
    total, counted = listed.count(), listed.annotate(number_of_branches=_BRANCHES)
    part = KeptPage.turn(counted, parameters, size=PAGE_SIZE, scope=f"datasets {repository}", total=total)
    unlisted = 0 if filters.data else datasets.count() - total
    rows = _make_rows(part.rows)
    tops = dict.fromkeys(row.dataset.path.split("/")[1] for row in rows)
    return DatasetsPage(
        nav="repositories" if repository else "datasets",
        repo_bar={"name": repository, "tab": "datasets"} if repository else None,
        groups=[
            FolderGroup(top, folders.get(top, ""), [row for row in rows if row.dataset.path.split("/")[1] == top])
            for top in tops
        ],
        filters=filters,
        folders=sorted(folders),
        total=total,
        unlisted=unlisted,
        all_url=f"?{urlencode(asdict(replace(filters, data='any')))}",
        previous_url=part.link(part.previous, **asdict(filters)),
        next_url=part.link(part.next, **asdict(filters)),
    )


def _list_folders(principal: Principal) -> dict[str, str]:
    """Return the top folders that the reader sees, each with its repository or an empty text."""
    visible = permissions.visible_folders(principal)
    folders = Folder.objects.all() if visible is None else Folder.objects.filter(name__in=visible)
    return dict(folders.order_by("name").values_list("name", "repository"))


def _make_rows(datasets: Sequence[Any]) -> list[DatasetRow]:
    masters = {
        branch.dataset_id: branch
        for branch in DatasetBranch.objects.filter(dataset__in=datasets, name=MASTER).select_related(
            "transaction__parent"
        )
    }
    return [
        DatasetRow(
            dataset=dataset,
            newest=queries.committed_of(masters[dataset.pk]) if dataset.pk in masters else None,
            branches=dataset.number_of_branches,
        )
        for dataset in datasets
    ]


@dataclass(frozen=True)
class Starts:
    """What a new branch may start from."""

    branches: Choices
    transactions: Sequence[tuple[str, str]]
    """The newest, as the form sends them and as they are called."""


@dataclass(frozen=True)
class DatasetRequest:
    """What the address of a dataset's page asks for."""

    branch: str = MASTER
    transaction: str = ""
    tab: str = "preview"
    q: str = ""
    sort: str = ""
    page: int = 0
    branch_page: int = 0
    only: bool = False
    """Whether the graph of snapshots shows this branch alone."""
    aborted: bool = True
    host: str = ""
    start: str = ""
    """What the form of a new branch says that it starts from."""


def read_dataset_page(principal: Principal, *, path: str, request: DatasetRequest) -> DatasetPage:
    """Return the page of a dataset."""
    dataset = queries.get_dataset(principal, path)
    pinned = queries.get_transaction(dataset, request.transaction) if request.transaction else None
    branch = pinned.branch_name if pinned else request.branch
    schema, damage = _read_schema(principal, dataset, request)
    pointer = queries.find_branch(dataset, branch)
    # A branch that has nothing of its own reads another one, and what led to that is its history too.
    line = branch if pointer and pointer.transaction else schema.branch
    owner = permissions.find_folder_owner(dataset.path)
    can_write = _can_write(principal, dataset, branch)
    folder_path, name = dataset.path.rsplit("/", 1)
    keys = ports.list_keys(dataset=dataset, branch=schema.branch)
    shown = _Shown(dataset, branch, line, schema, keys)
    names = history.list_names(dataset)
    opened = pointer.transaction if pointer and pointer.transaction and pointer.transaction.is_open else None
    return DatasetPage(
        nav="datasets",
        repo_bar={"name": owner, "tab": "datasets"} if owner else None,
        dataset=dataset,
        folder_path=f"{folder_path}/",
        name=name,
        branch=branch,
        transaction=pinned,
        resolved=schema.branch,
        exists=pointer is not None,
        written="" if schema.columns or damage else queries.find_written_branch(dataset),
        picker=_choose(names, request, branch),
        facts=_read_facts(dataset, line, schema),
        tab=request.tab,
        tabs=_make_tabs(dataset, request, line, schema),
        current_tab=next(title for tab, title, *_ in TABS if tab == request.tab),
        can_write=can_write,
        can_delete=(may_write := _can_write(principal, dataset, None)),
        can_load=may_write and pinned is None,
        load_url=f"{reverse('upload')}?{urlencode({'dataset': dataset.path, 'branch': branch})}",
        rights=_describe_rights(principal, dataset),
        maker=ports.describe_maker(principal=principal, dataset=dataset, branch=branch),
        keys=keys,
        hidden_columns=sorted(permissions.list_sensitive(principal, dataset.path)),
        snippets=snippets.write_snippets(
            host=request.host,
            table=dataset.table,
            branch=branch,
            with_s3=is_object_location(settings.TRIBUTARY_WAREHOUSE),
        ),
        open_transaction=opened,
        may_commit=opened is not None and can_write and not find_refusal(check_commit, principal, opened),
        may_abort=opened is not None and can_write and not find_refusal(check_abort, principal, opened),
        types=TYPE_CHOICES if can_write and opened is None and pinned is None else (),
        **(_read_panel(principal, shown, request) if damage is None else {"problem": damage}),
    )


def _read_schema(principal: Principal, dataset: Dataset, request: DatasetRequest) -> tuple[SchemaView, Problem | None]:
    """Return the schema, or a blank one and why: a table whose metadata is damaged keeps a page that says so."""
    view = _view_of(request)
    try:
        return get_schema(principal, dataset, **view), None
    except DamagedTable as error:
        pinned = queries.get_transaction(dataset, request.transaction) if request.transaction else None
        resolved = pinned.branch_name if pinned else request.branch
        committed = pinned or queries.latest_committed(dataset, resolved)
        problem = Problem("The catalog cannot read this table", f"{error.detail}. Other tables are not touched.")
        return SchemaView(resolved, committed, {}, {}, {}, ()), problem


def _view_of(request: DatasetRequest) -> dict[str, str | None]:
    if request.transaction:
        return {"branch": None, "transaction": request.transaction}
    return {"branch": request.branch, "transaction": None}


@dataclass(frozen=True)
class _Shown:
    """A dataset on the branch that it is shown on."""

    dataset: Dataset
    branch: str
    line: str
    """The branch whose history led to what is shown."""
    schema: SchemaView
    keys: Sequence[str]


def _read_panel(principal: Principal, shown: _Shown, request: DatasetRequest) -> dict[str, Any]:
    dataset, schema = shown.dataset, shown.schema
    if request.tab == "preview":
        return _read_preview_panel(principal, dataset, request, shown.keys)
    if request.tab == "schema":
        names = {column.id: column.name for column in schema.columns}
        return {
            "schema": schema,
            "spec_text": schemas.describe_spec(schema.partition_spec, names),
            "order_text": schemas.describe_order(schema.sort_order, names),
            "protected": history.list_protected_ids(dataset),
        }
    if request.tab == "history":
        transactions = history.read_history(dataset, branch=shown.line, aborted=request.aborted, page=request.page)
        return {"history": transactions, "aborted": request.aborted}
    if request.tab == "branches":
        return {
            "tree": history.read_tree(
                principal,
                dataset,
                branch=shown.branch,
                q=request.q,
                page=request.branch_page,
            ),
            "deleted": CutList.of(queries.list_deleted_branches(dataset), MOST_DELETED),
            "protected": history.list_protected_ids(dataset),
            "history": history.read_history(dataset, branch=shown.line, aborted=request.aborted, page=request.page),
            "aborted": request.aborted,
            "starts": read_starts(dataset, chosen=request.start),
        }
    if request.tab == "catalog":
        return {
            "table": read_table(
                dataset, branch=shown.line, only=request.only, page=request.page, branch_page=request.branch_page
            ),
            "protected": history.list_protected_ids(dataset),
        }
    return {}


def _read_preview_panel(
    principal: Principal, dataset: Dataset, request: DatasetRequest, keys: Sequence[str]
) -> dict[str, Any]:
    preview_request = PreviewRequest(start=request.page * PAGE_SIZE, limit=PAGE_SIZE, sort=request.sort, q=request.q)
    panel: dict[str, Any] = {"q": request.q, "sort": request.sort}
    try:
        preview = read_preview(principal, dataset, **_view_of(request), request=preview_request)
    except AppError as error:
        if error.code == "bad_search":
            return {**panel, "search_problem": error.detail}
        return {**panel, "problem": Problem("The rows cannot be shown", error.detail)}
    last = request.page - 1 if request.page else None
    following = request.page + 1 if preview.has_more else None
    return {
        **panel,
        "preview": preview,
        "preview_rows": _align(preview),
        "row_urls": _list_row_urls(dataset, preview, keys),
        "preview_pages": {
            "text": _describe_rows(preview),
            "previous_url": _page_url(request, last),
            "next_url": _page_url(request, following),
        },
    }


def _list_row_urls(dataset: Dataset, preview: Preview, keys: Sequence[str]) -> list[str]:
    # A key with a hidden part names no row to this reader.
    rows = [
        {column.name: value for column, value in zip(preview.columns, row, strict=True) if not column.is_hidden}
        for row in preview.rows
    ]
    return ports.list_row_urls(dataset=dataset, branch=preview.branch, keys=keys, rows=rows)


def _align(preview: Preview) -> list[list[tuple[Any, bool, bool]]]:
    numeric = [column.type.split("(")[0] in NUMERIC for column in preview.columns]
    hidden = [column.is_hidden for column in preview.columns]
    return [list(zip(row, numeric, hidden, strict=True)) for row in preview.rows]


def _describe_rows(preview: Preview) -> str:
    if not preview.rows:
        return "No rows"
    text = f"{preview.start + 1:,}–{preview.start + len(preview.rows):,}"
    if preview.total is not None:
        text += f" of {preview.total:,}"
    if preview.scanned is not None:
        text += f", among the first {preview.scanned:,} rows"
    return text


def _page_url(request: DatasetRequest, page: int | None) -> str:
    if page is None:
        return ""
    values = {"tab": request.tab, "q": request.q, "sort": request.sort, "page": page or ""}
    return "?" + urlencode({**_address_of(request), **{name: value for name, value in values.items() if value}})


def _address_of(request: DatasetRequest) -> dict[str, str]:
    return {"transaction": request.transaction} if request.transaction else {"branch": request.branch}


def choose_branches(principal: Principal, *, path: str, q: str) -> Choices:
    """Return the first branches of a dataset that have a text in their name."""
    return choose(history.list_names(queries.get_dataset(principal, path)), q=q)


def read_branch_picker(principal: Principal, *, path: str, request: DatasetRequest, q: str) -> Picker:
    """Return the branches of a dataset that have a text in their name, for its picker."""
    return _choose(history.list_names(queries.get_dataset(principal, path)), request, "", q=q)


def _choose(names: Sequence[str], request: DatasetRequest, branch: str, *, q: str = "") -> Picker:
    choices = choose(names, q=q, current=branch)
    listed = choices.names if q or branch in choices.names else (*choices.names, branch)
    return Picker(
        branches=[
            {
                "name": name,
                "url": "?" + urlencode({"branch": name, "tab": request.tab}),
                "note": "" if name in names else "reads by fallback",
            }
            for name in listed
            if name
        ],
        others=choices.others,
        q=q,
        find_url="?" + urlencode({"fragment": "branches", "tab": request.tab}),
    )


def _make_tabs(dataset: Dataset, request: DatasetRequest, branch: str, schema: SchemaView) -> list[Mapping[str, Any]]:
    counts = {
        "schema": sum(column.depth == 0 for column in schema.columns) if schema.schema else None,
        "history": history.count_history(dataset, branch=branch),
        "branches": list_branches(dataset).count(),
    }
    return [
        {
            "name": title,
            "url": "?" + urlencode({**_address_of(request), "tab": tab}),
            "icon": icon,
            "count": counts.get(tab),
            "hotkey": hotkey,
        }
        for tab, title, icon, hotkey in TABS
    ]


def _read_facts(dataset: Dataset, branch: str, schema: SchemaView) -> Facts:
    shown = schema.transaction
    summary = {} if shown is None else shown.summary
    master = queries.latest_committed(dataset, MASTER) if branch != MASTER else None
    rows = summary.get("rows", 0)
    return Facts(
        rows=rows,
        difference=rows - master.summary.get("rows", 0) if master is not None and shown is not None else None,
        bytes=summary.get("bytes", 0),
        files=summary.get("files", 0),
        columns=sum(column.depth == 0 for column in schema.columns) if schema.schema else None,
        schema_id=schema.schema.get("schema-id"),
        newest=shown,
    )


def read_starts(dataset: Dataset, *, chosen: str = "") -> Starts:
    """Return what a new branch may start from; what is chosen now is listed in any case."""
    recent = queries.list_transactions(dataset, aborted=False)[:MOST_STARTS]
    return Starts(
        branches=choose(history.list_names(dataset), current=chosen),
        transactions=[(f"transaction:{row.pk}", f"{row.pk[:7]} on {row.branch_name}") for row in recent],
    )


def _can_write(principal: Principal, dataset: Dataset, branch: str | None) -> bool:
    return not find_refusal(permissions.check_dataset, principal, dataset.path, "write", branch)


def _describe_rights(principal: Principal, dataset: Dataset) -> str:
    if _can_write(principal, dataset, MASTER):
        return "you may read and write on every branch, master included."
    if _can_write(principal, dataset, None):
        return "you may read and write on branches; master is written by builds and maintainers."
    return "you may read."
