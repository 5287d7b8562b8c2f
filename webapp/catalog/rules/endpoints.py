"""Every route of the catalog: method, path, and whether a branch may call it. Feeds routing, /v1/config and the refusals."""

from collections import defaultdict
from dataclasses import dataclass

from webapp.accounts.rules.scopes import needed_scope
from webapp.catalog.rules.errors import Forbidden, Unsupported
from webapp.core.errors import NotFound

BASE = "/v1/{prefix}"
NAMESPACES = f"{BASE}/namespaces"
NAMESPACE = NAMESPACES + "/{namespace}"
TABLES = f"{NAMESPACE}/tables"
TABLE = TABLES + "/{table}"
VIEWS = f"{NAMESPACE}/views"
VIEW = VIEWS + "/{view}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation of the specification."""

    operation: str
    method: str
    path: str
    refusal: str = ""
    is_listed: bool = True
    is_listed_on_branches: bool = True
    """Clients that find an operation use it. False where they have another way, which works on a branch."""
    reads: bool = False
    """Sent by POST or DELETE, and changes nothing of a table."""

    @property
    def declaration(self) -> str:
        """How `/v1/config` names it."""
        return f"{self.method} {self.path}"

    @property
    def scope(self) -> str:
        """The scope that a token needs for it at least."""
        return "read" if self.reads else needed_scope(self.method)

    def check_branch(self, branch: str | None) -> None:
        """Refuse a call from a branch where the operation would reach beyond it."""
        if branch is not None and self.refusal:
            message = f"{self.operation} cannot be called from branch {branch}: {self.refusal}"
            raise Forbidden(message)


_ON_MASTER = "call it without the X-PLTR-Branch header"
_DELETE_BRANCH = "to remove what the branch has, delete the branch; to remove the table, " + _ON_MASTER

ENDPOINTS = (
    Endpoint("getConfig", "GET", "/v1/config", is_listed=False),
    Endpoint("getToken", "POST", "/v1/oauth/tokens", is_listed=False),
    Endpoint("listNamespaces", "GET", NAMESPACES),
    Endpoint("createNamespace", "POST", NAMESPACES),
    Endpoint("loadNamespaceMetadata", "GET", NAMESPACE),
    Endpoint("namespaceExists", "HEAD", NAMESPACE),
    Endpoint("dropNamespace", "DELETE", NAMESPACE, f"namespaces are shared by all branches; {_ON_MASTER}"),
    Endpoint(
        "updateProperties", "POST", f"{NAMESPACE}/properties", f"namespaces are shared by all branches; {_ON_MASTER}"
    ),
    Endpoint("listTables", "GET", TABLES),
    Endpoint("createTable", "POST", TABLES),
    Endpoint("loadTable", "GET", TABLE),
    Endpoint("tableExists", "HEAD", TABLE),
    Endpoint("updateTable", "POST", TABLE),
    Endpoint("dropTable", "DELETE", TABLE, _DELETE_BRANCH),
    Endpoint("registerTable", "POST", f"{NAMESPACE}/register"),
    Endpoint("unregisterTable", "POST", f"{TABLE}/unregister", _DELETE_BRANCH),
    Endpoint("loadCredentials", "GET", f"{TABLE}/credentials"),
    Endpoint("planTableScan", "POST", f"{TABLE}/plan", reads=True),
    Endpoint("fetchPlanningResult", "GET", f"{TABLE}/plan/{{plan-id}}"),
    Endpoint("cancelPlanning", "DELETE", f"{TABLE}/plan/{{plan-id}}", reads=True),
    Endpoint("fetchScanTasks", "POST", f"{TABLE}/tasks", reads=True),
    Endpoint("reportMetrics", "POST", f"{TABLE}/metrics", reads=True),
    Endpoint("renameTable", "POST", f"{BASE}/tables/rename", f"a table has one name on all branches; {_ON_MASTER}"),
    Endpoint(
        "commitTransaction",
        "POST",
        f"{BASE}/transactions/commit",
        "commit the tables one by one, or let a build publish its outputs together",
        is_listed_on_branches=False,
    ),
    Endpoint("listViews", "GET", VIEWS),
    Endpoint("createView", "POST", VIEWS, f"views are shared by all branches; {_ON_MASTER}"),
    Endpoint("loadView", "GET", VIEW),
    Endpoint("viewExists", "HEAD", VIEW),
    Endpoint("replaceView", "POST", VIEW, f"views are shared by all branches; {_ON_MASTER}"),
    Endpoint("dropView", "DELETE", VIEW, f"views are shared by all branches; {_ON_MASTER}"),
    Endpoint("renameView", "POST", f"{BASE}/views/rename", f"views are shared by all branches; {_ON_MASTER}"),
    Endpoint(
        "registerView",
        "POST",
        f"{NAMESPACE}/register-view",
        f"views are shared by all branches; {_ON_MASTER}",
    ),
)
_VARIABLE = "{"


def listed_endpoints(*, on_branch: bool = False) -> list[str]:
    """List for `/v1/config` what clients may ask of the server, with the header of a branch or without."""
    return [
        endpoint.declaration
        for endpoint in ENDPOINTS
        if endpoint.is_listed and (endpoint.is_listed_on_branches or not on_branch)
    ]


UNSUPPORTED = (
    ("GET", f"{NAMESPACE}/functions"),
    ("GET", NAMESPACE + "/functions/{function}"),
    ("POST", f"{TABLE}/sign"),
)


def match(method: str, segments: tuple[str, ...]) -> tuple[Endpoint, dict[str, str]]:
    """Return the operation a request is for, with the variables of its path."""
    for endpoint, pattern in _PATTERNS.get((method, len(segments)), ()):
        if _fits(pattern, segments):
            pairs = zip(pattern, segments, strict=True)
            return endpoint, {part[1:-1]: segment for part, segment in pairs if part.startswith(_VARIABLE)}
    shown = f"{method} /{'/'.join(segments)}"
    for other, path in UNSUPPORTED:
        if other == method and _fits(_pattern(path), segments):
            message = f"This catalog does not support {shown}, and does not list it in /v1/config"
            raise Unsupported(message)
    message = f"No route for request: {shown}"
    raise NotFound(message)


def _fits(pattern: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    return len(pattern) == len(segments) and all(
        part.startswith(_VARIABLE) or part == segment for part, segment in zip(pattern, segments, strict=True)
    )


def _pattern(path: str) -> tuple[str, ...]:
    # This catalog gives clients no prefix, so none is in the paths they call.
    return tuple(part for part in path.strip("/").split("/") if part != "{prefix}")


def _group_by_shape() -> dict[tuple[str, int], list[tuple[Endpoint, tuple[str, ...]]]]:
    """Group operations by method and number of segments, so that a request may be for only a few."""
    groups = defaultdict(list)
    for endpoint in ENDPOINTS:
        pattern = _pattern(endpoint.path)
        groups[endpoint.method, len(pattern)].append((endpoint, pattern))
    return dict(groups)


_PATTERNS = _group_by_shape()
