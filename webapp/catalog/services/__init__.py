"""Everything that changes namespaces, tables and views."""

from webapp.catalog.services.branches import create_branch, drop_branch, drop_staging, publish_staging
from webapp.catalog.services.namespaces import create_namespace, drop_namespace, ensure_namespace, update_properties
from webapp.catalog.services.tables import (
    commit_table,
    commit_tables,
    create_empty_table,
    create_table,
    drop_table,
    drop_table_at,
    register_table,
    rename_table,
)

__all__ = [
    "commit_table",
    "commit_tables",
    "create_branch",
    "create_empty_table",
    "create_namespace",
    "create_table",
    "drop_branch",
    "drop_namespace",
    "drop_staging",
    "drop_table",
    "drop_table_at",
    "ensure_namespace",
    "publish_staging",
    "register_table",
    "rename_table",
    "update_properties",
]
