"""Everything that changes namespaces, tables and views.

Modules:
    namespaces: namespaces made, changed and dropped.
    tables: tables made, changed, renamed and dropped.
    views: views made, replaced, renamed and dropped.
    swaps: the one way a table's pointer moves.
    turns: commits to one table take turns.
    idempotency: answers kept by key, in the atomic block of their effect.
    folders: the folders of tables and views.
    staged_files: what a job staged, checked before anybody else sees it.
    branches: branches of tables made, published and dropped, for datasets and builds.
    scans: scans planned, and their plans kept.
    collector: files that nothing refers to any more, removed.
    checking: what `manage.py fsck` asks of the catalog.
"""

from webapp.catalog.services.branches import (
    create_branch,
    drop_branch,
    drop_staging,
    keep_snapshot,
    publish_staging,
    retire_branch,
    revive_branch,
)
from webapp.catalog.services.namespaces import create_namespace, drop_namespace, ensure_namespace, update_properties
from webapp.catalog.services.staged_files import (
    check_staged,
    close_job_folders,
    has_staged,
    list_job_folders,
    measure_job_objects,
    open_job_folders,
    remove_job_files,
)
from webapp.catalog.services.tables import (
    commit_table,
    commit_tables,
    create_empty_table,
    create_table,
    drop_table,
    drop_table_at,
    register_table,
    rename_table,
    render_input,
)
from webapp.catalog.services.views import commit_view, drop_view, make_view, register_view, rename_view

__all__ = [
    "check_staged",
    "close_job_folders",
    "commit_table",
    "commit_tables",
    "commit_view",
    "create_branch",
    "create_empty_table",
    "create_namespace",
    "create_table",
    "drop_branch",
    "drop_namespace",
    "drop_staging",
    "drop_table",
    "drop_table_at",
    "drop_view",
    "ensure_namespace",
    "has_staged",
    "keep_snapshot",
    "list_job_folders",
    "make_view",
    "measure_job_objects",
    "open_job_folders",
    "publish_staging",
    "register_table",
    "register_view",
    "remove_job_files",
    "rename_table",
    "rename_view",
    "render_input",
    "retire_branch",
    "revive_branch",
    "update_properties",
]
