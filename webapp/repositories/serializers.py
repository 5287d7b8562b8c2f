"""Shapes of the REST API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from webapp.core.errors import find_refusal
from webapp.core.inputs import Flag, NullIsAbsent, Number, Text
from webapp.core.outgoing import check_url
from webapp.core.serializers import NounSerializer
from webapp.git.texts import ENCODINGS, LINE_ENDS
from webapp.git.values import CommitInfo
from webapp.repositories.models import Repository
from webapp.repositories.rules.checks import CHECKS, RESULT_CHOICES
from webapp.repositories.rules.starters import EMPTY, STARTERS
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.rules.webhooks import SHAPE_CHOICES, TRIBUTARY

ROLES = ("reader", "writer", "maintainer")
PATH_HELP = r"bytes of a name that are not UTF-8, and control characters, are written as `\xhh`"


class WebAddress(Text):
    """An address that pages link to: of the web, since a link may run code by other schemes."""

    def to_internal_value(self, data: Any) -> str:
        """Refuse an address that is not one of the web."""
        address = str(super().to_internal_value(data))
        if address and (refusal := find_refusal(check_url, address)):
            raise serializers.ValidationError(refusal)
        return address


class NewRepositorySerializer(NounSerializer):
    """What makes a repository."""

    name = Text(max_length=100, trim_whitespace=False)
    description = Text(max_length=500, required=False, allow_blank=True, default="")
    template = Text(max_length=50, required=False, default=EMPTY, help_text=f"one of {', '.join(STARTERS)}")


class RepositoryChangeSerializer(NounSerializer):
    """What of a repository can change."""

    name = Text(max_length=100, trim_whitespace=False, required=False, help_text="the one that it has and keeps")
    description = Text(max_length=500, allow_blank=True, required=False)


class RepositorySerializer(NounSerializer):
    """A repository."""

    name = serializers.CharField()
    description = serializers.CharField()
    default_branch = serializers.CharField()
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)


class RepositoryDetailSerializer(RepositorySerializer):
    """A repository with the caller's role."""

    role = serializers.SerializerMethodField()

    def get_role(self, _repository: Repository) -> str:
        """Write what was looked up for the caller."""
        role: str = self.context["role"]
        return role


class PublicationSerializer(NounSerializer):
    """What came of publishing a commit."""

    status = serializers.ChoiceField(choices=list(PublicationState))
    jobspecs = serializers.IntegerField()
    errors = serializers.ListField(child=serializers.DictField())  # type: ignore[assignment]  # collected by DRF
    branch = serializers.CharField()


class NewBranchSerializer(NounSerializer):
    """What makes a branch."""

    name = Text(trim_whitespace=False, max_length=1000)
    start_point = Text(
        required=False, allow_blank=True, default="", max_length=1000, help_text="branch or commit; default: master"
    )


class BranchSerializer(NounSerializer):
    """A branch."""

    name = serializers.CharField()
    head = serializers.CharField()
    parent = serializers.CharField()  # type: ignore[assignment]  # collected by DRF
    protected = serializers.BooleanField()
    ahead = serializers.IntegerField()
    behind = serializers.IntegerField()
    default = serializers.BooleanField(source="is_default")
    published = PublicationSerializer(source="publication", allow_null=True)


class PersonSerializer(NounSerializer):
    """Who wrote a commit."""

    name = serializers.CharField()
    email = serializers.CharField()


class CommitSerializer(NounSerializer):
    """A commit."""

    sha = serializers.CharField()
    message = serializers.CharField()
    author = PersonSerializer()
    authored_at = serializers.DateTimeField()
    committer = PersonSerializer()
    committed_at = serializers.DateTimeField()
    parents = serializers.ListField(child=serializers.CharField())
    tree = serializers.CharField()


class ListedCommitSerializer(CommitSerializer):
    """A commit in a list, with what came of publishing it."""

    published = serializers.SerializerMethodField()

    @extend_schema_field(PublicationSerializer(allow_null=True))
    def get_published(self, commit: CommitInfo) -> Any:
        """Write the publication among those that were looked up for all commits of the answer."""
        publication = self.context["publications"].get(commit.sha)
        return None if publication is None else PublicationSerializer(publication).data


class MadeCommitSerializer(ListedCommitSerializer):
    """A commit that was just made."""

    branch = serializers.CharField()


class StatusSerializer(NounSerializer):
    """What a program says of a commit, or of one dataset that it makes."""

    name = Text(max_length=100, trim_whitespace=False, help_text="of the check, as a protection may require it")
    state = serializers.ChoiceField(source="result", choices=[result for result, _sentence in RESULT_CHOICES])
    description = Text(max_length=400, required=False, allow_blank=True, default="")
    target_url = WebAddress(source="url", max_length=1000, required=False, allow_blank=True, default="")
    dataset = Text(max_length=400, required=False, allow_blank=True, default="", help_text="path of the dataset")
    reported_by = serializers.CharField(source="reported_by.username", read_only=True, default=None, allow_null=True)
    reported_at = serializers.DateTimeField(read_only=True)


class ChangeSerializer(NounSerializer):
    """One change of a file: content, deletion or move."""

    path = Text(trim_whitespace=False)
    content = Text(required=False, allow_blank=True, trim_whitespace=False)
    content_base64 = Text(required=False, allow_blank=True)
    delete = Flag(required=False, default=False)
    move_to = Text(required=False, trim_whitespace=False)


class NewCommitSerializer(NounSerializer):
    """What makes a commit."""

    branch = Text(trim_whitespace=False)
    message = Text(trim_whitespace=False)
    expected_head = Text(required=False, allow_null=True, default=None)
    changes = ChangeSerializer(many=True)


class LineSerializer(NounSerializer):
    """One line of a hunk."""

    kind = serializers.ChoiceField(choices=["context", "added", "deleted"])
    old = serializers.IntegerField(allow_null=True)
    new = serializers.IntegerField(allow_null=True)
    text = serializers.CharField()
    no_newline = serializers.BooleanField()
    end = serializers.ChoiceField(
        choices=["lf", "crlf", ""], help_text="how the line ends; empty without a newline at the end of the file"
    )


class HunkSerializer(NounSerializer):
    """A run of lines around a change."""

    old_start = serializers.IntegerField()
    old_count = serializers.IntegerField()
    new_start = serializers.IntegerField()
    new_count = serializers.IntegerField()
    heading = serializers.CharField()
    lines = LineSerializer(many=True)


class TextFormSerializer(NounSerializer):
    """How a text is stored."""

    encoding = serializers.ChoiceField(
        choices=ENCODINGS, help_text="mixed: UTF-8 with invalid bytes; others than UTF-8 are guessed"
    )
    byte_order_mark = serializers.BooleanField(source="has_bom")
    line_ends = serializers.ChoiceField(choices=LINE_ENDS)


class HiddenCharactersSerializer(NounSerializer):
    """A character that readers cannot see, or that reorders text."""

    character = serializers.CharField(help_text="such as `U+202E right-to-left override`")
    side = serializers.ChoiceField(choices=["before", "after"])
    lines = serializers.ListField(child=serializers.IntegerField())


class FileDiffSerializer(NounSerializer):
    """What happened to one file."""

    path = serializers.CharField(help_text=PATH_HELP)
    old_path = serializers.CharField()
    status = serializers.ChoiceField(choices=["added", "deleted", "modified", "renamed", "copied", "retyped"])
    additions = serializers.IntegerField()
    deletions = serializers.IntegerField()
    is_binary = serializers.BooleanField()
    truncated = serializers.BooleanField()
    similarity = serializers.IntegerField()
    mode_before = serializers.CharField(allow_null=True, help_text="Git's mode in octal, such as `100755`")
    mode_after = serializers.CharField(allow_null=True)
    before = TextFormSerializer(allow_null=True, help_text="null: no text file, or not compared")
    after = TextFormSerializer(allow_null=True)
    hidden_characters = HiddenCharactersSerializer(many=True, source="hidden")
    hunks = HunkSerializer(many=True)


class CommitDetailSerializer(ListedCommitSerializer):
    """A commit with its publication and its changes."""

    files = FileDiffSerializer(many=True)


class ComparisonSerializer(NounSerializer):
    """What a head changed since it left the base."""

    base = serializers.CharField()
    head = serializers.CharField()
    base_sha = serializers.CharField()
    head_sha = serializers.CharField()
    merge_base = serializers.CharField(allow_null=True)
    ahead = serializers.IntegerField()
    behind = serializers.IntegerField()
    commits = CommitSerializer(many=True)
    files = FileDiffSerializer(many=True)


class EntrySerializer(NounSerializer):
    """One line of a folder."""

    type = serializers.ChoiceField(choices=["file", "folder", "symlink", "submodule"], source="kind")
    name = serializers.CharField()
    path = serializers.CharField(help_text=PATH_HELP)
    sha = serializers.CharField()
    size = serializers.IntegerField(allow_null=True)


class FileSerializer(NounSerializer):
    """A file with its content."""

    type = serializers.ChoiceField(choices=["file", "symlink", "submodule"])
    path = serializers.CharField(help_text=PATH_HELP)
    sha = serializers.CharField(help_text="of the file's content; of a submodule, its commit, and the content is empty")
    commit = serializers.CharField(help_text="that the ref stands for")
    size = serializers.IntegerField()
    encoding = serializers.CharField(help_text="always base64")
    content = serializers.CharField()


class MemberSerializer(NounSerializer):
    """A member's role."""

    user = serializers.CharField(source="user.username")
    role = serializers.ChoiceField(choices=ROLES)


class NewMemberSerializer(NounSerializer):
    """What gives a role."""

    user = Text(max_length=150)
    role = serializers.ChoiceField(choices=ROLES)


class PathRuleSerializer(NounSerializer):
    """Who must approve a change of matching files or datasets."""

    pattern = Text(max_length=500)
    group = Text(max_length=150)
    approvals = Number(required=False, default=1, min_value=1, max_value=20)


class TextToLintSerializer(NullIsAbsent):
    """A text that is to be checked as if it lay at a path."""

    path = Text(max_length=1000)
    text = Text(allow_blank=True, trim_whitespace=False)


class LintProblemSerializer(NounSerializer):
    """Something that is wrong with a text; lines and columns count from 1."""

    code = serializers.CharField(help_text="ruff's rule, or invalid-syntax")
    message = serializers.CharField()
    line = serializers.IntegerField()
    column = serializers.IntegerField()
    end_line = serializers.IntegerField()
    end_column = serializers.IntegerField()


class LintReportSerializer(NounSerializer):
    """What a linter says of a text."""

    problems = LintProblemSerializer(many=True)


class NewWebhookSerializer(NounSerializer):
    """An address and the events that it receives."""

    url = Text(max_length=500)
    events = serializers.ListField(child=Text(max_length=20), required=False, help_text="default: all")
    secret = Text(max_length=200, required=False, default="", allow_blank=True, help_text="signs what is sent")
    shape = serializers.ChoiceField(
        choices=SHAPE_CHOICES, default=TRIBUTARY, help_text="JSON with all facts, or a message for people"
    )


class DeliverySerializer(NounSerializer):
    """One event, sent to a webhook."""

    id = serializers.CharField(source="uid")
    event = serializers.CharField()
    tries = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True, help_text="of the last answer; 0 without one")
    reason = serializers.CharField()
    created_at = serializers.DateTimeField()
    sent_at = serializers.DateTimeField(allow_null=True)
    due_at = serializers.DateTimeField(allow_null=True, help_text="when it is tried next")


class WebhookSerializer(NounSerializer):
    """A webhook; its secret is not shown again."""

    id = serializers.IntegerField()
    url = serializers.CharField()
    events = serializers.ListField(child=serializers.CharField())
    shape = serializers.ChoiceField(choices=SHAPE_CHOICES)
    created_at = serializers.DateTimeField()


class GroupNames(serializers.ListField):
    """Groups by their names."""

    def to_representation(self, data: Any) -> list[str]:
        """Write the names of a protection's groups."""
        return [group.name for group in data.all()]


class ProtectionSerializer(NounSerializer):
    """What it takes to move a branch."""

    branch = Text(max_length=1000)
    approvals = Number(required=False, default=1, min_value=0, max_value=20)
    groups = GroupNames(child=Text(max_length=150), required=False, default=list)
    paths = PathRuleSerializer(many=True, required=False, default=list)
    checks = serializers.ListField(
        child=Text(max_length=200),
        required=False,
        default=list,
        help_text=f"of {', '.join(CHECKS)}, or reported by programs",
    )
    resolved_threads = Flag(
        required=False, default=False, help_text="whether every thread on code or data must be resolved"
    )
    owners = Flag(
        required=False,
        default=False,
        help_text="whether an owner of what is changed must approve: [owners] in pipeline.toml",
    )
    allow_bypass = Flag(required=False, default=True)
