"""Who may read or write which table on which branch. What somebody may not see does not exist for them: 404, not 403."""

from webapp.accounts.permissions import check_dataset, list_sensitive, role_on_folder
from webapp.accounts.rules.roles import allows
from webapp.accounts.rules.scopes import covers
from webapp.catalog.rules.access import Access
from webapp.catalog.rules.branch_properties import MASTER
from webapp.catalog.rules.errors import Forbidden, NoSuchNamespace, NoSuchTable, NoSuchView
from webapp.catalog.rules.refs import Levels, TableRef, is_internal
from webapp.core.errors import NotFound, PermissionDenied, hidden
from webapp.core.principals import Principal

_ANY_BRANCH = "any"
"""A branch that no rule names."""


def check_read(by: Principal | None, ref: TableRef) -> None:
    """Refuse to show a table; `by` None is the application itself."""
    if by is None:
        return
    if by.job is not None:
        _check_job_branch(by, ref)
        if ref.table not in by.job.inputs and ref.table not in by.job.outputs:
            raise hidden(no_such_table(ref))
        return
    _check(by, ref, "read", ref.branch or MASTER)


def check_files(by: Principal, ref: TableRef) -> None:
    """Refuse to lead somebody to the files of a table with columns that are hidden from them: files hide nothing.

    Raises:
        Forbidden: it names the columns.

    """
    tables = [table for table in (ref, ref.qualified()) if table is not None]
    columns = {name for table in tables for name in list_sensitive(by, table.path)}
    # Who may not see a table at all hears the same as where there is none.
    if columns and by.job is not None:
        message = f"{ref.table} has columns that are hidden from the code of this job ({', '.join(sorted(columns))})"
        raise Forbidden(message)
    if columns and role_on_folder(by, ref.namespace[0]) is not None:
        message = (
            f"{ref.table} has columns that are hidden from you ({', '.join(sorted(columns))}), and its files hide nothing: "
            "read it on its pages, by the REST API or by SQL"
        )
        raise Forbidden(message)


def check_write(by: Principal | None, ref: TableRef, branch: str, *, staged_for: str | None = None) -> None:
    """Refuse to change a branch of a table; `staged_for` is the branch an internal one will be published to."""
    if by is None:
        return
    if by.job is not None:
        _check_job_branch(by, ref)
        if ref.table not in by.job.outputs:
            if ref.table not in by.job.inputs:
                raise hidden(no_such_table(ref))
            message = f"{ref.table} is an input of job {by.job.job_id}, which may only read it"
            raise Forbidden(message)
        if branch != by.job.branch:
            message = f"Job {by.job.job_id} writes branch {by.job.branch} and no other, not {branch}"
            raise Forbidden(message)
        return
    if is_internal(branch):
        if staged_for is None:
            message = f"Branch {branch} belongs to a job or an open transaction, which alone may write it"
            raise Forbidden(message)
        branch = staged_for
    _check(by, ref, "write", branch)


def storage_access(by: Principal, ref: TableRef, *, staged_for: str | None = None) -> Access:
    """Return how far somebody's rights on the files of a table go, who may read it at least."""
    if by.job is not None:
        return Access.WRITE if ref.table in by.job.outputs else Access.READ
    try:
        # Without the header a client can still write any branch by its ref.
        check_write(by, ref, ref.branch or _ANY_BRANCH, staged_for=staged_for)
    except (PermissionDenied, NotFound):
        return Access.READ
    try:
        _check(by, ref, "maintain", MASTER)
    except (PermissionDenied, NotFound):
        return Access.WRITE
    return Access.MAINTAIN


def check_view(by: Principal | None, ref: TableRef, action: str) -> None:
    """Refuse to read or write a view; jobs know none."""
    if by is None:
        return
    if by.job is not None:
        raise hidden(no_such_view(ref))
    try:
        _check(by, ref, action, MASTER)
    except NoSuchTable:
        raise hidden(no_such_view(ref)) from None


def check_namespace(by: Principal | None, levels: Levels, action: str) -> None:
    """Refuse to read, write or maintain a namespace."""
    if by is None:
        return
    if by.job is not None:
        if action != "read" or not any(_is_prefix(levels, table) for table in job_tables(by)):
            raise hidden(no_such_namespace(levels))
        return
    role = role_on_folder(by, levels[0])
    if role is None:
        raise hidden(no_such_namespace(levels))
    if not allows(role, action) or not covers(by.scopes, action):
        message = f"To {action} the namespace {'.'.join(levels)} your role, {role}, or your token is not enough"
        raise Forbidden(message)


def check_takeover(by: Principal | None, location: str) -> None:
    """Refuse to take over files that nobody has at this moment to all but administrators."""
    if by is not None and not (by.is_admin and covers(by.scopes, "maintain")):
        message = f"There are files at {location}: only an administrator may take over what others may have left there"
        raise Forbidden(message)


def can_read_namespace(by: Principal | None, levels: Levels) -> bool:
    """Return whether `check_namespace` would let somebody read."""
    try:
        check_namespace(by, levels, "read")
    except (NoSuchNamespace, Forbidden):
        return False
    return True


def job_tables(by: Principal) -> frozenset[str]:
    """Return every table that a job's token knows."""
    return frozenset() if by.job is None else frozenset({*by.job.inputs, *by.job.outputs})


def no_such_table(ref: TableRef) -> NoSuchTable:
    """Say the same whether the table is absent or hidden."""
    return NoSuchTable(f"Table does not exist: {ref.table}")


def no_such_view(ref: TableRef) -> NoSuchView:
    """Say the same whether the view is absent or hidden."""
    return NoSuchView(f"View does not exist: {ref.table}")


def no_such_namespace(levels: Levels) -> NoSuchNamespace:
    """Say the same whether the namespace is absent or hidden."""
    return NoSuchNamespace(f"Namespace does not exist: {'.'.join(levels)}")


def _check_job_branch(by: Principal, ref: TableRef) -> None:
    if by.job is not None and ref.branch != by.job.branch:
        message = f"The token of job {by.job.job_id} is for branch {by.job.branch}, not {ref.branch or MASTER}"
        raise Forbidden(message)


def _check(by: Principal, ref: TableRef, action: str, branch: str) -> None:
    if ref.is_dataset:
        try:
            check_dataset(by, ref.path, action, branch)
        except NotFound:
            raise hidden(no_such_table(ref)) from None
        return
    # A name that no dataset can have: there is no dataset to ask about, so the folder decides alone.
    needed = "maintain" if action == "write" and branch == MASTER else action
    role = role_on_folder(by, ref.namespace[0])
    if role is None:
        raise hidden(no_such_table(ref))
    if not allows(role, needed) or not covers(by.scopes, action):
        message = f"To {action} {ref.table} on {branch} your role, {role}, or your token is not enough"
        raise Forbidden(message)


def _is_prefix(levels: Levels, table: str) -> bool:
    return tuple(table.split(".")[: len(levels)]) == levels
