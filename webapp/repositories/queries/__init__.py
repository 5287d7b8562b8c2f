"""Everything that reads a repository. Functions that take a principal decide what it may see."""

from webapp.repositories.queries.branches import (
    BranchInfo,
    get_branch,
    get_fallback_chain,
    get_head,
    get_publication,
    list_branch_names,
    list_branches,
    list_protections,
)
from webapp.repositories.queries.code import (
    compare,
    count_commits,
    export_tree,
    find_merge_base,
    get_commit,
    list_commits,
    list_entries,
    list_files,
    merge_state,
    read_blob,
    read_file,
)
from webapp.repositories.queries.repositories import (
    find_repository,
    get_repository,
    list_members,
    list_repositories,
    repository_by_name,
)

__all__ = [
    "BranchInfo",
    "compare",
    "count_commits",
    "export_tree",
    "find_merge_base",
    "find_repository",
    "get_branch",
    "get_commit",
    "get_fallback_chain",
    "get_head",
    "get_publication",
    "get_repository",
    "list_branch_names",
    "list_branches",
    "list_commits",
    "list_entries",
    "list_files",
    "list_members",
    "list_protections",
    "list_repositories",
    "merge_state",
    "read_blob",
    "read_file",
    "repository_by_name",
]
