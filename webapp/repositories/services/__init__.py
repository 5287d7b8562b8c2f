"""Everything that changes a repository; keyword-only, `by` is the actor.

Modules:
    repositories: repositories made, described and deleted, and their members.
    branches: branches made and deleted.
    edits: files saved from the editor.
    commits: commits and merges on the server.
    pushes: what a push may do, and what follows of it.
    moves: whose move of a ref it is.
    announcements: what moved, announced to the apps above.
    recording: commits of Git, written into rows.
    deletions: a branch deleted in steps that a crash may part.
    protections: what it takes to move a branch.
    statuses: what other programs say of commits.
    webhooks: events delivered to addresses that asked for them.
    quotas: how much Git objects may take of the disk.
    locks: what writers that died left behind.
    copies: whether a copy is the one that the database knows.
    accepting: another copy, accepted by somebody's word.
    checking: what `manage.py fsck` asks of repositories.
"""

from webapp.git.values import Change, Person
from webapp.repositories.services.accepting import accept_copy
from webapp.repositories.services.announcements import (
    announce,
    set_publication,
    sweep_settled_heads,
)
from webapp.repositories.services.branches import (
    check_branch_name_is_free,
    create_branch,
    delete_branch,
    restore_branch,
)
from webapp.repositories.services.checking import check_repositories
from webapp.repositories.services.commits import (
    commit_files,
    land_merge,
    merge_into_branch,
    prepare_merge,
    rebase_branch,
    revert_to_new_branch,
    sign,
)
from webapp.repositories.services.copies import check_copy, check_repositories_part
from webapp.repositories.services.deletions import sweep_deletions
from webapp.repositories.services.edits import (
    Edit,
    FileDraft,
    Mode,
    Moved,
    Refused,
    Saved,
    check_draft,
    find_target,
    is_changed,
    save_file,
    write_drafts,
)
from webapp.repositories.services.locks import sweep_leftovers, sweep_locks
from webapp.repositories.services.moves import is_move_undecided, sweep_moves
from webapp.repositories.services.protections import remove_protection, set_protection
from webapp.repositories.services.pushes import PushRules, announce_pushed, check_push
from webapp.repositories.services.quotas import find_push_room
from webapp.repositories.services.recording import rebuild_commits, sweep_commits, sweep_orphaned_commits
from webapp.repositories.services.repositories import (
    create_repository,
    delete_repository,
    remove_member,
    set_member,
    update_repository,
)
from webapp.repositories.services.statuses import report_status
from webapp.repositories.services.webhooks import (
    add_webhook,
    announce_event,
    remove_webhook,
    start_delivery,
    sweep_deliveries,
)

__all__ = [
    "Change",
    "Edit",
    "FileDraft",
    "Mode",
    "Moved",
    "Person",
    "PushRules",
    "Refused",
    "Saved",
    "accept_copy",
    "add_webhook",
    "announce",
    "announce_event",
    "announce_pushed",
    "check_branch_name_is_free",
    "check_copy",
    "check_draft",
    "check_push",
    "check_repositories",
    "check_repositories_part",
    "commit_files",
    "create_branch",
    "create_repository",
    "delete_branch",
    "delete_repository",
    "find_push_room",
    "find_target",
    "is_changed",
    "is_move_undecided",
    "land_merge",
    "merge_into_branch",
    "prepare_merge",
    "rebase_branch",
    "rebuild_commits",
    "remove_member",
    "remove_protection",
    "remove_webhook",
    "report_status",
    "restore_branch",
    "revert_to_new_branch",
    "save_file",
    "set_member",
    "set_protection",
    "set_publication",
    "sign",
    "start_delivery",
    "sweep_commits",
    "sweep_deletions",
    "sweep_deliveries",
    "sweep_leftovers",
    "sweep_locks",
    "sweep_moves",
    "sweep_orphaned_commits",
    "sweep_settled_heads",
    "update_repository",
    "write_drafts",
]
