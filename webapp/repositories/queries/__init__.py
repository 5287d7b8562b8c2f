"""Everything that reads a repository. Functions that take a principal decide what it may see.

Modules:
    repositories: repositories and their members.
    branches: branches, their ancestry, publications and protections.
    code: files, commits and comparisons.
    history: histories, from rows of commits or from Git.
    searches: which commits of a history somebody asks for.
    moves: who brought commits to a branch.
    linting: what a linter says of a text.
    parquet: Parquet files as the rows that people edit.
    statuses: what other programs said of commits.
    webhooks: webhooks and their deliveries.
"""

from webapp.repositories.queries.branches import (
    BranchInfo,
    BranchList,
    get_branch,
    get_fallback_chain,
    get_head,
    get_head_commit,
    get_protection,
    get_publication,
    has_published,
    list_branch_names,
    list_branches,
    list_protections,
    list_publications,
    publications_of_commits,
)
from webapp.repositories.queries.code import (
    CompareOverview,
    LazyCommits,
    compare,
    compare_commits,
    compare_overview,
    decorate_files,
    describe_paths,
    diff_commit,
    export_tree,
    find_kind,
    find_landing,
    find_merge_base,
    find_submodule,
    follow_file,
    get_commit,
    list_changed_paths,
    list_changes,
    list_changes_between,
    list_commits,
    list_conflicts,
    list_entries,
    list_files,
    merge_state,
    name_authors,
    read_blob,
    read_file,
)
from webapp.repositories.queries.history import count_ahead_behind
from webapp.repositories.queries.linting import lint
from webapp.repositories.queries.moves import find_mover, list_pushers
from webapp.repositories.queries.repositories import (
    find_repository,
    get_repository,
    get_role,
    list_members,
    list_repositories,
    repository_by_name,
)
from webapp.repositories.queries.searches import CommitFilter
from webapp.repositories.queries.statuses import is_ever_reported, list_statuses
from webapp.repositories.queries.webhooks import get_webhook, list_webhooks

__all__ = [
    "BranchInfo",
    "BranchList",
    "CommitFilter",
    "CompareOverview",
    "LazyCommits",
    "compare",
    "compare_commits",
    "compare_overview",
    "count_ahead_behind",
    "decorate_files",
    "describe_paths",
    "diff_commit",
    "export_tree",
    "find_kind",
    "find_landing",
    "find_merge_base",
    "find_mover",
    "find_repository",
    "find_submodule",
    "follow_file",
    "get_branch",
    "get_commit",
    "get_fallback_chain",
    "get_head",
    "get_head_commit",
    "get_protection",
    "get_publication",
    "get_repository",
    "get_role",
    "get_webhook",
    "has_published",
    "is_ever_reported",
    "lint",
    "list_branch_names",
    "list_branches",
    "list_changed_paths",
    "list_changes",
    "list_changes_between",
    "list_commits",
    "list_conflicts",
    "list_entries",
    "list_files",
    "list_members",
    "list_protections",
    "list_publications",
    "list_pushers",
    "list_repositories",
    "list_statuses",
    "list_webhooks",
    "merge_state",
    "name_authors",
    "publications_of_commits",
    "read_blob",
    "read_file",
    "repository_by_name",
]
