"""Pull requests, reviews, comments and diffs as JSON."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.db.models import prefetch_related_objects
from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from webapp.builds.rules.loads import Load
from webapp.builds.rules.states import BuildState
from webapp.builds.serializers import BuildSerializer, MadeColumnSerializer
from webapp.comparisons.serializers.described import (
    SCHEMA_STATUSES,
    DiffRowSerializer,
    RowCountsSerializer,
    RowsSerializer,
    SchemaDiffSerializer,
    ShownComparisonSerializer,
    StatisticsSerializer,
)
from webapp.core.inputs import Flag, NullIsAbsent, Number, Text
from webapp.core.serializers import NounSerializer, OptionalText, TextOrNull
from webapp.git.conflicts import TAKES, Resolution
from webapp.pulls.models import Comment, Merge, PendingComment, PullCheck, PullDataset, PullRequest, QueuedMerge, Review
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries import queue
from webapp.pulls.queries.conflicts import MAX_FILES
from webapp.pulls.queries.expected import version_of_comment, version_of_pull
from webapp.pulls.queries.lines import LinesNow
from webapp.pulls.queries.lists import list_sorted_by
from webapp.pulls.queries.named import ShownDataset, show_dataset
from webapp.pulls.queries.reverts import find_revert
from webapp.pulls.queries.timeline import TimelineEntry
from webapp.pulls.queries.unseen import count_unseen
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.checks import CheckResult
from webapp.pulls.rules.labels import MOST_NAME, TONES
from webapp.pulls.rules.lineage import NodeBuild
from webapp.pulls.rules.reviewers import ReviewerState
from webapp.pulls.rules.states import MergeState, PullState, QueueState
from webapp.sql.serializers import QuerySerializer


def words(choices: list[tuple[str, str]]) -> list[str]:
    """Return the words that programs see, without their sentences."""
    return [word for word, _sentence in choices]


# --- what is sent ---------------------------------------------------------------------------------


class ExpectedSerializer(serializers.Serializer[Any]):
    """What was shown to the user who acts."""

    expected_head = Text(
        required=False, trim_whitespace=False, help_text="`head` that was shown: 409 with the new one if it has moved"
    )
    expected_transaction = Text(
        required=False,
        trim_whitespace=False,
        help_text="transaction of the source that was shown: 409 with the new one if the dataset has moved",
    )


class ExpectedVersionSerializer(ExpectedSerializer):
    """What was shown to the user who edits a text."""

    expected_version = Text(
        required=False, trim_whitespace=False, help_text="`version` that was shown: 409 if edited since"
    )


class NewPullSerializer(NullIsAbsent):
    """Body of POST …/pulls."""

    title = Text(max_length=250)
    source = Text(help_text="a branch")  # type: ignore[assignment]  # collected by DRF
    target = Text(required=False, help_text="a branch; default: master")
    body = Text(required=False, allow_blank=True, trim_whitespace=False)
    draft = Flag(required=False)


class PullChangeSerializer(ExpectedVersionSerializer):
    """Body of PATCH …/pulls/{n}: what is to change."""

    title = Text(required=False, max_length=250)
    body = Text(required=False, allow_blank=True, allow_null=True, trim_whitespace=False)
    draft = Flag(required=False)
    target = Text(required=False)
    state = serializers.ChoiceField(required=False, choices=list(PullState), help_text="open or closed")


class NewAnchorSerializer(NullIsAbsent):
    """Lines of a file, by `path` and `line`; or a dataset, one of its rows or one cell."""

    path = Text(required=False, trim_whitespace=False)
    line = Number(required=False)
    start_line = Number(required=False)
    side = serializers.ChoiceField(required=False, choices=["head", "base"], help_text="default: head")
    dataset = serializers.JSONField(required=False, help_text="path or number of a dataset")
    key = serializers.DictField(required=False, help_text="key column → value")
    column = Text(required=False, trim_whitespace=False)
    compared = Text(
        required=False,
        allow_blank=True,
        help_text="the comparison whose row is quoted; default: the one shown for the dataset",
    )


class NewCommentSerializer(NullIsAbsent, ExpectedSerializer):
    """Body of POST …/comments."""

    body = Text(trim_whitespace=False)
    anchor = NewAnchorSerializer(required=False, allow_null=True)
    reply_to = serializers.IntegerField(
        required=False, min_value=1, help_text="a comment of the thread; a reply has no anchor"
    )
    expected_before = Text(
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        help_text="of a dataset, the transaction before the change that was shown: 409 if it has moved",
    )


class EditCommentSerializer(ExpectedVersionSerializer):
    """Body of PATCH …/comments/{id}."""

    body = Text(required=False, trim_whitespace=False)
    resolved = Flag(required=False, help_text="whether its thread is dealt with; of a comment that begins one")


class EditPendingSerializer(NullIsAbsent):
    """Body of PATCH …/pending-comments/{id}."""

    body = Text(trim_whitespace=False)
    expected_version = Text(
        required=False, trim_whitespace=False, help_text="`version` that was shown: 409 if edited since"
    )


class CommitSuggestionsSerializer(NullIsAbsent):
    """Body of POST …/suggestions."""

    comments = serializers.ListField(
        child=serializers.IntegerField(min_value=1), help_text="those whose suggestions become one commit"
    )
    message = Text(required=False, allow_blank=True, help_text="of the commit; one is written where there is none")
    expected_head = Text(required=False, trim_whitespace=False, help_text="409 if the head has moved")
    looked_at = serializers.DateTimeField(
        required=False, help_text="when the comments were read: 409 if one of them was changed since"
    )


class NewReviewSerializer(NullIsAbsent):
    """Body of POST …/reviews."""

    verdict = serializers.ChoiceField(choices=words(states.VERDICT_CHOICES))
    body = Text(required=False, allow_blank=True, trim_whitespace=False)
    expected_head = Text(
        required=False,
        trim_whitespace=False,
        help_text="the head that was reviewed: 409 if it has moved",
    )
    expected_target = Text(
        required=False,
        trim_whitespace=False,
        help_text="`base` as it was reviewed: an approval is a 409 if the merge would now change more than it showed",
    )
    expected_transaction = Text(
        required=False,
        trim_whitespace=False,
        help_text="transaction of the source that was reviewed: 409 if no dataset has it now",
    )


class NewDatasetVerdictSerializer(NullIsAbsent):
    """Body of POST …/datasets/{id}/verdict."""

    verdict = serializers.ChoiceField(
        choices=[*words(states.DATASET_VERDICT_CHOICES), states.VIEWED, states.UNSEEN],
        help_text="viewed takes a verdict back, none the tick as viewed, too",
    )
    reason = Text(required=False, allow_blank=True, trim_whitespace=False, help_text="of a rejection")
    expected_transaction = Text(
        required=False, help_text="of the source, that was looked at: 409 if there is another one now"
    )


class NewLoadSerializer(serializers.Serializer[Any]):
    """Body of POST …/uploads: whether merging loads the files of a dataset on the target."""

    dataset = Text(trim_whitespace=False, help_text="its path")
    load = Flag()
    expected_transaction = Text(
        required=False, help_text="of the source, that was looked at: 409 if there is another one now"
    )
    expected_target = Text(
        required=False, allow_blank=True, help_text="of the target, that was looked at: 409 if there is another one now"
    )


class ReviewersSerializer(NullIsAbsent):
    """Body of POST …/reviewers: whose review is asked for."""

    users = serializers.ListField(child=Text(), required=False)
    groups = serializers.ListField(child=Text(), required=False)


class PullLabelsSerializer(serializers.Serializer[Any]):
    """Body of PUT …/labels."""

    labels = serializers.ListField(child=Text(), help_text="names of labels of the repository; all that it has then")


class PullAssigneesSerializer(serializers.Serializer[Any]):
    """Body of PUT …/assignees."""

    users = serializers.ListField(child=Text(), help_text="user names; all who see to it then")


class NewPullBuildSerializer(NullIsAbsent):
    """Body of POST …/builds; all of it may be left out."""

    sides = serializers.ListField(child=serializers.ChoiceField(choices=["head", "base"]), required=False)
    scope = serializers.ChoiceField(choices=[states.MODIFIED, states.AFFECTED], required=False)
    force = Flag(required=False)


class NewQueuedMergeSerializer(NullIsAbsent):
    """Body of POST …/queue; all of it may be left out."""

    method = serializers.ChoiceField(choices=words(states.METHOD_CHOICES), required=False)
    rebuild = serializers.ChoiceField(choices=words(states.REBUILD_CHOICES), required=False)
    expected_head = Text(required=False, trim_whitespace=False, help_text="409 when the source has moved")


class NewMergeSerializer(NewQueuedMergeSerializer):
    """Body of POST …/merge; all of it may be left out."""

    bypass = Flag(required=False, help_text="merge past a requirement; maintainers only")


class ResolutionSerializer(serializers.Serializer[Any]):
    """What a file that conflicts is to be: `take`, `takes` or `content`."""

    path = Text(trim_whitespace=False)
    take = serializers.ChoiceField(
        choices=TAKES,
        required=False,
        allow_null=True,
        help_text="ours: the source branch's; of a text only the lines that clash are taken, the rest is merged",
    )
    takes = serializers.ListField(
        child=serializers.ChoiceField(choices=TAKES),
        required=False,
        help_text="of a text: for each of its `clashes`, in their order, what is taken",
    )
    content = Text(required=False, allow_blank=True, allow_null=True, trim_whitespace=False)

    def to_internal_value(self, data: Any) -> Any:
        """Make a value of it."""
        fields = super().to_internal_value(data)
        text, takes = fields.pop("content", None), tuple(fields.pop("takes", ()))
        return Resolution(**fields, takes=takes, content=None if text is None else text.encode())


class BranchUpdateSerializer(NullIsAbsent):
    """Body of POST …/update; it may be left out."""

    method = serializers.ChoiceField(
        choices=states.UPDATE_CHOICES,
        required=False,
        help_text="rebase makes the source's commits anew on top of the target",
    )
    expected_head = Text(required=False, trim_whitespace=False, help_text="409 when the source has moved")
    expected_target = Text(required=False, trim_whitespace=False, help_text="409 when the target has moved")
    resolutions = serializers.ListField(
        child=ResolutionSerializer(), required=False, max_length=MAX_FILES, help_text="one for each file that conflicts"
    )


# --- what conflicts -------------------------------------------------------------------------------


KIND_HELP = "file, folder, symlink or submodule; null if this side has none"


class ConflictedFileSerializer(NounSerializer):
    """A file that the source and the target change in ways that Git cannot join."""

    path = serializers.CharField()
    in_source = serializers.BooleanField(source="is_ours", help_text="false where the source has removed it")
    in_target = serializers.BooleanField(source="is_theirs", help_text="false where the target has removed it")
    source_kind = TextOrNull(source="ours.kind", help_text=KIND_HELP)
    target_kind = TextOrNull(source="theirs.kind", help_text=KIND_HELP)
    clashes = serializers.IntegerField(help_text="places with lines of both; 0 where it is taken as a whole")
    content = TextOrNull(source="marked", help_text="with marks around what clashes; null where it is taken as a whole")


class ConflictsSerializer(NounSerializer):
    """What keeps the target from being merged into the source."""

    head = serializers.CharField(help_text="of the source; send it as expected_head")
    target_head = serializers.CharField(help_text="send it as expected_target")
    files = ConflictedFileSerializer(many=True)


# --- pull requests --------------------------------------------------------------------------------


class LabelSerializer(NounSerializer):
    """A label of a repository."""

    name = Text(max_length=MOST_NAME)
    tone = serializers.ChoiceField(choices=TONES, required=False, help_text="its colour; default: plain")


class PullSerializer(NounSerializer):
    """A pull request, as lists show it."""

    number = serializers.IntegerField()
    repository = serializers.CharField(source="repository.name")
    title = serializers.CharField()
    body = serializers.CharField()
    state = serializers.ChoiceField(choices=list(PullState))
    draft = serializers.BooleanField()
    author = serializers.CharField(source="author.username")
    source = serializers.CharField()  # type: ignore[assignment]  # collected by DRF
    target = serializers.CharField()
    head = serializers.CharField(source="head_sha", help_text="commit of the source")
    base = serializers.CharField(source="base_sha", help_text="commit of the target")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    closed_at = serializers.DateTimeField(allow_null=True)
    labels = serializers.SerializerMethodField(help_text="names of labels of the repository")
    assignees = serializers.SerializerMethodField(help_text="user names of those who see to it")

    def get_labels(self, pull: PullRequest) -> list[str]:
        """Return the names of its labels."""
        prefetch_related_objects([pull], *list_sorted_by())
        return [row.label.name for row in pull.labels.all()]

    def get_assignees(self, pull: PullRequest) -> list[str]:
        """Return the names of those who see to it."""
        prefetch_related_objects([pull], *list_sorted_by())
        return [row.user.username for row in pull.assignees.all()]


class BlockerSerializer(NounSerializer):
    """One reason why it may not be merged now."""

    code = serializers.CharField()
    message = serializers.CharField()


class ReviewSerializer(NounSerializer):
    """A review with what it is bound to."""

    id = serializers.IntegerField()
    reviewer = serializers.CharField(source="reviewer.username")
    verdict = serializers.ChoiceField(choices=words(states.VERDICT_CHOICES))
    body = serializers.CharField()
    head = serializers.CharField(source="seen.head", allow_null=True)
    void = serializers.SerializerMethodField()
    void_reason = TextOrNull()
    ineligible_reason = serializers.SerializerMethodField(
        help_text="why an approval by this reviewer does not count, such as: pushed 1a2b3c4"
    )
    created_at = serializers.DateTimeField()

    def get_void(self, review: Review) -> bool:
        """Return whether it no longer counts."""
        return review.voided_at is not None

    def get_ineligible_reason(self, review: Review) -> str | None:
        """Look it up among the reviewers of the pull request."""
        objections: dict[str, approvals.Objection] = self.context["ineligible"]
        objection = objections.get(review.reviewer.username)
        return objection.words if objection else None


class ReviewerSerializer(NounSerializer):
    """A person or a group that reviewed, or is asked to."""

    name = serializers.CharField()
    is_group = serializers.BooleanField()
    state = serializers.ChoiceField(source="state.value", choices=[state.value for state in ReviewerState])
    asked_at = serializers.DateTimeField(allow_null=True, help_text="null for who reviewed unasked")
    asked_by = serializers.CharField(allow_blank=True)


class MergeBuildSerializer(NounSerializer):
    """The build of a merge."""

    id = serializers.IntegerField()
    state = serializers.ChoiceField(choices=list(BuildState))


class OutcomeSerializer(NounSerializer):
    """Whether the target's result of one dataset equals what was reviewed; the counts where it was compared."""

    state = serializers.ChoiceField(choices=["equal", "different", "comparing", "not_compared", "not_landed"])
    transaction = serializers.CharField(required=False, allow_null=True, help_text="of the target")
    reviewed = serializers.CharField(required=False, help_text="the transaction that was reviewed")
    comparison = serializers.IntegerField(required=False, allow_null=True)
    reason = serializers.CharField(required=False)
    inserted = serializers.IntegerField(required=False)
    deleted = serializers.IntegerField(required=False)
    updated = serializers.IntegerField(required=False)


class MergeLoadSerializer(NounSerializer):
    """A dataset into which the build of a merge loads files."""

    path = serializers.CharField()
    files = serializers.ListField(
        source="names", child=serializers.CharField(), help_text="their names, in the order in which they are loaded"
    )


class MergeSerializer(NounSerializer):
    """A merge with its rebuild and what became of it."""

    merge_commit = serializers.CharField()
    state = serializers.ChoiceField(choices=words(MergeState.choices()))
    method = serializers.ChoiceField(choices=words(states.METHOD_CHOICES))
    rebuild = serializers.ChoiceField(choices=words(states.REBUILD_CHOICES))
    targets = serializers.ListField(child=serializers.CharField())
    loads = serializers.SerializerMethodField(
        help_text="what was loaded on the source, and is loaded on the target again"
    )
    bypassed = BlockerSerializer(many=True, help_text="what was passed over")
    build = MergeBuildSerializer(allow_null=True)
    outcome = serializers.SerializerMethodField(help_text="by dataset path")
    merged_by = serializers.CharField(source="merged_by.username")

    @extend_schema_field(MergeLoadSerializer(many=True))
    def get_loads(self, merge: Merge) -> Any:
        """Write what its build loads."""
        return MergeLoadSerializer([Load.from_json(load) for load in merge.loads], many=True).data

    @extend_schema_field(serializers.DictField(child=OutcomeSerializer()))
    def get_outcome(self, merge: Merge) -> dict[str, Any]:
        """Write what became of each dataset."""
        return queries.describe_outcome(merge)


class QueuedMergeSerializer(NounSerializer):
    """A merge that somebody asked for when it is ready."""

    number = serializers.IntegerField(source="pull.number", help_text="of the pull request")
    target = serializers.CharField()
    state = serializers.ChoiceField(choices=words(QueueState.choices()))
    place = serializers.SerializerMethodField(help_text="in the queue of the target, from 1; null before it has one")
    method = serializers.ChoiceField(choices=words(states.METHOD_CHOICES))
    rebuild = serializers.ChoiceField(choices=words(states.REBUILD_CHOICES))
    head = serializers.CharField(source="source_sha", help_text="the commit that is to be merged")
    base = TextOrNull(source="base_sha", help_text="the commit that it is tested on")
    tested = TextOrNull(source="tested_sha", help_text="the commit that is tested, and lands as it is")
    targets = serializers.ListField(child=serializers.CharField(), help_text="the datasets that its test builds")
    build = MergeBuildSerializer(allow_null=True, help_text="of what would land")
    reason = TextOrNull(help_text="why its test failed, or why it left")
    enqueued_by = serializers.CharField(source="enqueued_by.username")
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)

    def get_place(self, queued: QueuedMerge) -> int | None:
        """Look it up among the places of all."""
        places: dict[int, int] = self.context["places"]
        return places.get(queued.pk)


class UnseenDataSerializer(NounSerializer):
    """What is known of datasets whose rows the reader may not see."""

    datasets = serializers.IntegerField()
    compared = serializers.IntegerField(help_text="of how many of these the rows are counted")
    inserted = serializers.IntegerField()
    deleted = serializers.IntegerField()
    updated = serializers.IntegerField()


class PullDetailSerializer(PullSerializer):
    """A pull request with everything that decides its merge."""

    mergeable = serializers.SerializerMethodField()
    blocked_by = serializers.SerializerMethodField()
    stale = serializers.SerializerMethodField(
        help_text="the target has commits, or data of these datasets, that the branch did not start from"
    )
    reviews = serializers.SerializerMethodField()
    merge = serializers.SerializerMethodField()
    queued = serializers.SerializerMethodField(help_text="its merge, where somebody asks for that when it is ready")
    unseen = serializers.SerializerMethodField(
        help_text="of the datasets whose rows you may not see, and which are not listed: counts"
    )
    reverts = serializers.SerializerMethodField(help_text="number of the pull request that it takes back")
    reverted_by = serializers.SerializerMethodField(
        help_text="number of the pull request that takes it back: open, or merged and not itself reverted since"
    )
    version = serializers.SerializerMethodField(
        help_text="changes with title, body, draft, target or state; send it as expected_version"
    )

    def to_representation(self, instance: PullRequest) -> dict[str, Any]:
        """Gather once what speaks for and against a merge: three members say so."""
        self._facts = queries.collect_facts(instance)
        self._blockers = approvals.list_blockers(self._facts)
        return super().to_representation(instance)

    def get_mergeable(self, _pull: PullRequest) -> bool:
        """Return whether nothing blocks it."""
        return not self._blockers

    @extend_schema_field(BlockerSerializer(many=True))
    def get_blocked_by(self, pull: PullRequest) -> Any:
        """Write what blocks it, as long as it is open."""
        return BlockerSerializer(self._blockers if pull.state == PullState.OPEN else [], many=True).data

    @extend_schema_field(UnseenDataSerializer())
    def get_unseen(self, pull: PullRequest) -> Any:
        """Count what the reader may not see."""
        seen = queries.list_dataset_rows(self.context["principal"], pull)
        return UnseenDataSerializer(count_unseen(pull, seen=seen)).data

    def get_stale(self, pull: PullRequest) -> bool:
        """Return whether the target has moved."""
        return queries.is_stale(pull, self._facts)

    @extend_schema_field(ReviewSerializer(many=True))
    def get_reviews(self, pull: PullRequest) -> Any:
        """Write its reviews, and whether each counts."""
        reviews = pull.reviews.select_related("reviewer")
        return ReviewSerializer(reviews, many=True, context={"ineligible": queries.list_objections(pull)}).data

    @extend_schema_field(MergeSerializer(allow_null=True))
    def get_merge(self, pull: PullRequest) -> Any:
        """Write its merge, unless that was given up."""
        merge = queries.find_merge(pull)
        return None if merge is None else MergeSerializer(merge).data

    @extend_schema_field(QueuedMergeSerializer(allow_null=True))
    def get_queued(self, pull: PullRequest) -> Any:
        """Write the merge that is asked for."""
        queued = queue.find_queued(pull)
        return None if queued is None else show_queued(queued)

    def get_version(self, pull: PullRequest) -> str:
        """Return the version of what an edit overwrites."""
        return version_of_pull(pull)

    def get_reverts(self, pull: PullRequest) -> int | None:
        """Name what it takes back."""
        return None if pull.reverts is None else pull.reverts.number

    def get_reverted_by(self, pull: PullRequest) -> int | None:
        """Name what takes it back."""
        revert = find_revert(pull)
        return None if revert is None else revert.number


def show_queued(queued: QueuedMerge) -> Any:
    """Write one merge that is asked for, with its place."""
    return QueuedMergeSerializer(queued, context={"places": queue.find_places([queued])}).data


class RestoredBranchSerializer(NounSerializer):
    """A branch that was deleted and is back."""

    branch = serializers.SerializerMethodField()
    head = serializers.SerializerMethodField()
    datasets = serializers.ListField(
        source="paths", child=serializers.CharField(), help_text="whose data is back on it"
    )
    lost = serializers.DictField(child=serializers.CharField(), help_text="by dataset path, why its data is not back")

    def get_branch(self, _data: Any) -> str:
        """Return its name."""
        return str(self.context["pull"].source)

    def get_head(self, _data: Any) -> str:
        """Return the commit that it has again."""
        return str(self.context["pull"].head_sha)


class PictureCellSerializer(NounSerializer):
    """One cell of the row that a comment is about; long texts are cut."""

    name = serializers.CharField()
    is_key = serializers.BooleanField()
    before_type = serializers.CharField(allow_null=True)
    after_type = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=["same", "changed", "inserted", "deleted", "none"])
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    delta = serializers.CharField(allow_null=True)
    is_hidden = serializers.BooleanField(required=False, help_text="whether the values are hidden from you")


class PictureSerializer(NounSerializer):
    """The row that a comment is about, as it was when it was written."""

    compared = serializers.ChoiceField(choices=words(states.NAMED_CHOICES))
    change = serializers.ChoiceField(choices=["inserted", "deleted", "updated"])
    cells = PictureCellSerializer(many=True)


class CommentSerializer(NounSerializer):
    """A comment; `visible` in the context are the paths of the datasets whose rows the reader may see."""

    id = serializers.IntegerField()
    author = serializers.CharField(source="author.username")
    body = serializers.CharField()
    anchor = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    reply_to = serializers.IntegerField(
        source="thread_id", allow_null=True, help_text="the comment that begins its thread; null where this one does"
    )
    picture = serializers.SerializerMethodField(
        help_text="null where it is about no row that had changed, and of datasets that the reader may not see"
    )
    review = serializers.IntegerField(
        source="review_id", allow_null=True, help_text="the review with which it was submitted"
    )
    resolved = serializers.SerializerMethodField()
    edited_at = serializers.DateTimeField(allow_null=True)
    deleted_at = serializers.DateTimeField(allow_null=True, help_text="when its text was taken away")
    commit = serializers.SerializerMethodField(
        help_text="the commit that showed the lines of its anchor; null where it is about no lines"
    )
    now = serializers.SerializerMethodField(
        help_text="the anchor of the same lines at the newest commit; null where they were edited, and of anything else"
    )
    version = serializers.SerializerMethodField(help_text="send it as expected_version; also its ETag")

    @extend_schema_field(PictureSerializer(allow_null=True))
    def get_picture(self, comment: Comment) -> Any:
        """Write the row that it is about."""
        is_visible = comment.picture and (comment.anchor or {}).get("dataset") in self.context["visible"]
        return PictureSerializer(self.context["places"].show_picture(comment)).data if is_visible else None

    @extend_schema_field(
        serializers.DictField(
            allow_null=True,
            help_text="{path, line, start_line, side} or {dataset, key, column}, and masked where values of the key are "
            "hidden from you: these columns, null in the key",
        )
    )
    def get_anchor(self, comment: Comment) -> Any:
        """Show what it is about as far as the reader may know it."""
        return self.context["places"].show(comment.anchor)

    def get_commit(self, comment: Comment) -> str | None:
        """Return the commit that showed its lines."""
        return comment.seen["commit"] if comment.seen else None

    @extend_schema_field(
        serializers.DictField(allow_null=True, help_text="{path, line, start_line, side}, as of its anchor")
    )
    def get_now(self, comment: Comment) -> dict[str, Any] | None:
        """Say where its lines are now."""
        lines: LinesNow | None = self.context["lines"].get(comment.pk)
        return lines.as_json() if lines else None

    def get_version(self, comment: Comment) -> str:
        """Return the version of what an edit overwrites."""
        return version_of_comment(comment)

    def get_resolved(self, comment: Comment) -> bool:
        """Return whether its thread is said to be dealt with."""
        return comment.resolved_at is not None


class PendingCommentSerializer(NounSerializer):
    """A comment of one's own review that is not submitted."""

    id = serializers.IntegerField()
    body = serializers.CharField()
    anchor = serializers.DictField(
        allow_null=True, help_text="{path, line, start_line, side} or {dataset, key, column}"
    )
    reply_to = serializers.IntegerField(source="thread_id", allow_null=True, help_text="as of a comment")
    created_at = serializers.DateTimeField()
    version = serializers.SerializerMethodField(help_text="send it as expected_version; also its ETag")

    def get_version(self, comment: PendingComment) -> str:
        """Return the version of what an edit overwrites."""
        return version_of_comment(comment)


class CommentVersionSerializer(NounSerializer):
    """What a comment said once."""

    body = serializers.CharField()
    written_at = serializers.DateTimeField()


class CommentDetailSerializer(CommentSerializer):
    """A comment with what it said before."""

    versions = CommentVersionSerializer(source="versions.all", many=True)


class TimelineEntrySerializer(NounSerializer):
    """Something that happened to a pull request."""

    kind = serializers.ChoiceField(choices=[*words(states.EVENT_CHOICES), "review", "comment"])
    actor = TextOrNull()
    at = serializers.DateTimeField()
    data = serializers.SerializerMethodField()  # type: ignore[assignment]  # collected by DRF

    def get_data(self, entry: TimelineEntry) -> dict[str, Any]:
        """Show a review or a comment as elsewhere; what is known of anything else."""
        if entry.kind in self._nouns:
            return self._nouns[entry.kind].to_representation(entry.subject)
        data: dict[str, Any] = entry.subject.data
        return data

    @cached_property
    def _nouns(self) -> dict[str, NounSerializer]:
        return {"review": ReviewSerializer(context=self.context), "comment": CommentSerializer(context=self.context)}


class PullCheckSerializer(NounSerializer):
    """What a machine says of the head."""

    name = serializers.CharField()
    state = serializers.ChoiceField(choices=["green", "red", "pending"])
    detail = serializers.CharField()
    url = serializers.SerializerMethodField()
    dataset = serializers.CharField(help_text="path of the dataset that it speaks of; empty where it speaks of all")
    expects = serializers.SerializerMethodField(help_text="what a query is to give; null of any other check")
    standing = serializers.SerializerMethodField(
        help_text="of the file of a query beside the target's: same, added or changed; null of any other check"
    )
    query = serializers.SerializerMethodField(
        help_text="the newest run of a query, on both branches; null where there is none that you may see"
    )

    def get_url(self, check: CheckResult) -> str:
        """Lead to the build or query that it speaks of, or to where the program that reported it says more."""
        own = self._find(check)
        if own is not None:
            return f"{reverse('pull-checks', args=[own.pull.repository.name, own.pull.number])}#check-{own.pk}"
        return reverse("build", args=[check.build]) if check.build else check.url

    def get_expects(self, check: CheckResult) -> str | None:
        """Write what its file says."""
        own = self._find(check)
        return own.expects if own else None

    def get_standing(self, check: CheckResult) -> str | None:
        """Write how its file stands to the target's."""
        own = self._find(check)
        return own.standing if own else None

    @extend_schema_field(QuerySerializer(allow_null=True))
    def get_query(self, check: CheckResult) -> Any:
        """Write what came of it for this reader."""
        query = self.context.get("shown", {}).get(check.query_check)
        return None if query is None else QuerySerializer(query).data

    def _find(self, check: CheckResult) -> PullCheck | None:
        query_check: PullCheck | None = self.context.get("checks", {}).get(check.query_check)
        return query_check


class CheckNameSerializer(serializers.Serializer[Any]):
    """Which check of a pull request, by its name."""

    name = Text(max_length=250, help_text="such as checks/rows, of the file checks/rows.sql")


class StartedBuildsSerializer(BuildSerializer):
    """The build that was started, and the same in a list of one for each side."""

    builds = BuildSerializer(many=True)


# --- diffs ----------------------------------------------------------------------------------------


class TargetSinceSerializer(ShownComparisonSerializer):
    """What the target did to a dataset since the branch left it."""

    both = serializers.IntegerField(
        allow_null=True,
        help_text="rows of the shown comparison that both sides changed; null where nobody can tell",
    )


class ComparisonNameSerializer(NounSerializer):
    """Says which of its comparisons a dataset is shown by."""

    compared = serializers.ChoiceField(choices=words(states.NAMED_CHOICES))


class DatasetVerdictSerializer(NounSerializer):
    """What a reviewer says of one dataset."""

    reviewer = serializers.CharField()
    verdict = serializers.ChoiceField(choices=words(states.DATASET_VERDICT_CHOICES))
    reason = serializers.CharField()
    void = serializers.BooleanField(help_text="whether the source has other rows of it now than were seen")
    given_at = serializers.DateTimeField()


class PullDatasetSerializer(ShownComparisonSerializer):
    """One dataset of a pull request."""

    id = serializers.IntegerField(
        source="row.dataset_id", allow_null=True, help_text="null until the first build makes it"
    )
    path = serializers.CharField(source="row.path")
    lands = serializers.BooleanField(
        source="row.lands", help_text="whether merging brings it to the target, by rebuilding it there"
    )
    lands_reason = serializers.CharField(required=False, help_text="why not, such as: it was loaded on the source")
    change = serializers.ChoiceField(source="row.change", choices=words(states.CHANGE_CHOICES))
    changed_files = serializers.ListField(
        source="row.changed_files",
        child=serializers.CharField(),
        help_text="files that its jobs use while they run and that differ, if its JobSpec is unchanged",
    )
    current = serializers.BooleanField(
        source="row.current", help_text="the branch's data was made by the branch's published code"
    )
    compared = serializers.ChoiceField(source="name", choices=words(states.NAMED_CHOICES))
    compared_note = OptionalText(
        source="note", help_text="what else than the branch's own work the comparison shows, and why"
    )
    since = TargetSinceSerializer(allow_null=True, help_text="null where the target has not moved")
    rule_changes = serializers.ListField(
        source="row.rule_changes",
        child=serializers.CharField(),
        help_text="how the branch changes the review rules of pipeline.toml",
    )
    verdicts = serializers.SerializerMethodField()

    @extend_schema_field(DatasetVerdictSerializer(many=True))
    def get_verdicts(self, shown: ShownDataset) -> Any:
        """Write what each reviewer says of it."""
        verdicts = [verdict for verdict in self.context["verdicts"] if verdict.path == shown.row.path]
        return DatasetVerdictSerializer(verdicts, many=True).data

    def to_representation(self, instance: PullDataset) -> dict[str, Any]:
        """Write it by the comparison that was asked for, else by its default one."""
        return super().to_representation(show_dataset(instance, self.context.get("compared", "")))


class UploadSerializer(NounSerializer):
    """One upload whose rows the source shows."""

    file = serializers.CharField(source="name", help_text="what its sender calls it")
    mode = serializers.ChoiceField(choices=["snapshot", "append"])
    rows = serializers.IntegerField(help_text="that it brought")
    by = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True)


class LoadedDatasetSerializer(NounSerializer):
    """A dataset that was loaded on the source, and whether merging loads its files on the target."""

    id = serializers.IntegerField(source="row.dataset_id")
    path = serializers.CharField(source="row.path")
    uploads = UploadSerializer(source="uploads.uploads", many=True, help_text="the oldest first")
    load = serializers.BooleanField(source="is_chosen", help_text="whether merging loads them")
    problem = TextOrNull(help_text="why they cannot be loaded again, in words that go on from the path")
    transaction = TextOrNull(source="row.after_id", help_text="of the source; send it as expected_transaction")
    target_transaction = serializers.CharField(
        help_text="of the target; empty where it has none; send as expected_target"
    )
    target_moved = serializers.BooleanField(
        source="has_moved", help_text="whether the target has other rows than the source began with"
    )
    undecided = serializers.BooleanField(
        source="is_undecided",
        help_text="whether either side has other rows than when it was chosen, which blocks the merge",
    )


class PullDiffRowSerializer(DiffRowSerializer):
    """One changed row of a pull request."""

    both = serializers.BooleanField(
        required=False,
        help_text="both have changed it, the branch and, since the branch left it, the target",
    )


class PullRowsSerializer(ComparisonNameSerializer, RowsSerializer):
    """One page of a row diff of a pull request."""

    rows = PullDiffRowSerializer(many=True)


class ThreeWayRowSerializer(NounSerializer):
    """A row that both sides have changed; an end that has no such row is null."""

    key = serializers.DictField()
    base = serializers.DictField(allow_null=True, help_text="before either side changed it")
    source = serializers.DictField(allow_null=True)  # type: ignore[assignment]  # collected by DRF
    target = serializers.DictField(allow_null=True)
    conflicts = serializers.ListField(
        child=serializers.CharField(), help_text="columns that both have changed, to different values"
    )


class ThreeWaysSerializer(NounSerializer):
    """A page of rows that both sides have changed since the branch left the target."""

    key = serializers.ListField(child=serializers.CharField())
    columns = serializers.ListField(
        child=serializers.CharField(), help_text="those that either side has changed in any row of the page"
    )
    masked = serializers.ListField(
        child=serializers.CharField(), help_text="columns that are hidden from you: null in every row, and not compared"
    )
    rows = ThreeWayRowSerializer(many=True)
    next = serializers.IntegerField(source="after", allow_null=True)


class PullSchemaDiffSerializer(ComparisonNameSerializer, SchemaDiffSerializer):
    """What differs between two schemas of a dataset of a pull request."""


class PullStatisticsSerializer(ComparisonNameSerializer, StatisticsSerializer):
    """Each column in numbers at both ends of a comparison of a pull request."""


class NodeSchemaSerializer(NounSerializer):
    """What became of the schema of a dataset: full names of columns."""

    status = serializers.ChoiceField(choices=SCHEMA_STATUSES)
    added = serializers.ListField(child=serializers.CharField())
    removed = serializers.ListField(child=serializers.CharField())
    modified = serializers.ListField(child=serializers.CharField())


class ReadInputSerializer(NounSerializer):
    """What code reads of one of its inputs."""

    path = serializers.CharField()
    columns = serializers.ListField(child=serializers.CharField(), help_text="those that it asks for by name")
    listed = serializers.BooleanField(
        source="is_listed", help_text="whether that is all; else it may read others, too, and which is not known"
    )


class PullLineageNodeSerializer(NounSerializer):
    """One dataset of the graph of a pull request."""

    path = serializers.CharField()
    dataset = serializers.IntegerField(source="dataset_id", allow_null=True)
    change = serializers.ChoiceField(
        choices=words(states.CHANGE_CHOICES),
        allow_null=True,
        help_text="null for what is downstream in another repository",
    )
    repository = TextOrNull()
    function = TextOrNull()
    branch = TextOrNull(help_text="where its JobSpec was found")
    build_state = serializers.ChoiceField(source="build", choices=[state.value for state in NodeBuild])
    build = serializers.IntegerField(
        source="build_id", allow_null=True, help_text="the newest build of the source, where it has a job for it"
    )
    schema = NodeSchemaSerializer()
    rows = RowCountsSerializer()
    inputs = ReadInputSerializer(many=True, help_text="those of the graph")
    hidden_inputs = serializers.IntegerField(help_text="how many others of the graph you may not see")
    columns = MadeColumnSerializer(
        many=True, help_text="as the plan told that wrote the branch's rows; what is not known is left out"
    )


class BrokenReaderSerializer(NounSerializer):
    """A transform whose code reads columns that go."""

    path = serializers.CharField(help_text="the dataset that loses them")
    reads = serializers.ListField(
        source="gone.read", child=serializers.CharField(), help_text="columns that it asks for by name"
    )
    names = serializers.ListField(
        source="gone.named",
        child=serializers.CharField(),
        help_text="columns whose names its code has, which may stand for something else",
    )
    outputs = serializers.ListField(child=serializers.CharField())
    repository = serializers.CharField()
    function = serializers.CharField()
    branches = serializers.ListField(child=serializers.CharField(), help_text="some that have this code")
    other_branches = serializers.IntegerField(source="others", help_text="how many more have it")


class BreaksSerializer(NounSerializer):
    """What is known of the readers of columns that a merge takes away, on any branch."""

    columns = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()), help_text="dataset → columns that go"
    )
    broken = BrokenReaderSerializer(many=True)
    hidden = serializers.IntegerField(help_text="transforms that you may not see and that may read them")
    unknown = serializers.ListField(
        child=serializers.CharField(), help_text="outputs of transforms of whose code too little is known"
    )
    others = serializers.IntegerField(help_text="transforms whose code has no such name")
    cut = serializers.BooleanField(source="is_cut", help_text="more transforms read them than were looked at")


class PullLineageSerializer(NounSerializer):
    """What a pull request changes and what is downstream, across repositories."""

    nodes = PullLineageNodeSerializer(many=True)
    hidden = serializers.IntegerField(help_text="datasets that you may not see")
    cut = serializers.BooleanField(source="is_cut", help_text="larger than what is shown")
    breaks = BreaksSerializer()
