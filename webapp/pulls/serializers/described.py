"""Pull requests, reviews, comments and diffs as the API describes them: the shapes of what the functions beside return."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.builds.rules.states import BuildState
from webapp.builds.serializers import BuildSerializer
from webapp.comparisons.serializers.described import (
    DiffRowSerializer,
    RowsSerializer,
    SchemaDiffSerializer,
    ShownComparisonSerializer,
    StatisticsSerializer,
)
from webapp.pulls.rules import states
from webapp.pulls.rules.states import MergeState, PullState


def words(choices: list[tuple[str, str]]) -> list[str]:
    """Return the words that programs see, without their sentences."""
    return [word for word, _sentence in choices]


# --- what is sent ---------------------------------------------------------------------------------


class NewPullSerializer(serializers.Serializer[Any]):
    """Body of POST …/pulls."""

    title = serializers.CharField(max_length=250)
    source = serializers.CharField(help_text="a branch")  # type: ignore[assignment]  # collected by DRF
    target = serializers.CharField(required=False, help_text="a branch; default: master")
    body = serializers.CharField(required=False, allow_blank=True)
    draft = serializers.BooleanField(required=False)


class PullChangeSerializer(serializers.Serializer[Any]):
    """Body of PATCH …/pulls/{n}: what is to change."""

    title = serializers.CharField(required=False, max_length=250)
    body = serializers.CharField(required=False, allow_blank=True)
    draft = serializers.BooleanField(required=False)
    target = serializers.CharField(required=False)
    state = serializers.ChoiceField(required=False, choices=[PullState.OPEN, PullState.CLOSED])


class NewCommentSerializer(serializers.Serializer[Any]):
    """Body of POST …/comments."""

    body = serializers.CharField()
    anchor = serializers.DictField(
        required=False, allow_null=True, help_text="{path, line, side} or {dataset, key, column}"
    )


class NewReviewSerializer(serializers.Serializer[Any]):
    """Body of POST …/reviews."""

    verdict = serializers.ChoiceField(choices=words(states.VERDICT_CHOICES))
    body = serializers.CharField(required=False, allow_blank=True)
    expected_head = serializers.CharField(required=False, help_text="the head that was reviewed: 409 if it has moved")


class NewPullBuildSerializer(serializers.Serializer[Any]):
    """Body of POST …/builds; all of it may be left out."""

    sides = serializers.ListField(child=serializers.ChoiceField(choices=["head", "base"]), required=False)
    scope = serializers.ChoiceField(choices=[states.MODIFIED, states.AFFECTED], required=False)
    force = serializers.BooleanField(required=False)


class NewMergeSerializer(serializers.Serializer[Any]):
    """Body of POST …/merge; all of it may be left out."""

    method = serializers.ChoiceField(choices=words(states.METHOD_CHOICES), required=False)
    rebuild = serializers.ChoiceField(choices=words(states.REBUILD_CHOICES), required=False)
    expected_head = serializers.CharField(required=False, allow_blank=True, help_text="409 when the source has moved")
    bypass = serializers.BooleanField(required=False, help_text="merge past a requirement; maintainers only")


# --- pull requests --------------------------------------------------------------------------------


class PullSerializer(serializers.Serializer[Any]):
    """A pull request, as lists show it."""

    number = serializers.IntegerField()
    repository = serializers.CharField()
    title = serializers.CharField()
    body = serializers.CharField()
    state = serializers.ChoiceField(choices=list(PullState))
    draft = serializers.BooleanField()
    author = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # collected by DRF
    target = serializers.CharField()
    head = serializers.CharField(help_text="commit of the source")
    base = serializers.CharField(help_text="commit of the target")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    closed_at = serializers.DateTimeField(allow_null=True)


class BlockerSerializer(serializers.Serializer[Any]):
    """One reason why it may not be merged now."""

    code = serializers.CharField()
    message = serializers.CharField()


class ReviewSerializer(serializers.Serializer[Any]):
    """A review with what it is bound to."""

    id = serializers.IntegerField()
    reviewer = serializers.CharField()
    verdict = serializers.ChoiceField(choices=words(states.VERDICT_CHOICES))
    body = serializers.CharField()
    head = serializers.CharField(allow_null=True)
    void = serializers.BooleanField()
    void_reason = serializers.CharField(allow_null=True)
    ineligible_reason = serializers.CharField(
        allow_null=True, help_text="why an approval by this reviewer does not count, such as: pushed 1a2b3c4"
    )
    created_at = serializers.DateTimeField()


class BuildStateSerializer(serializers.Serializer[Any]):
    """A build and how far it is."""

    id = serializers.IntegerField()
    state = serializers.ChoiceField(choices=list(BuildState))


class OutcomeSerializer(serializers.Serializer[Any]):
    """Whether the target's result of one dataset equals what was reviewed; the counts where it was compared."""

    state = serializers.ChoiceField(choices=["equal", "different", "comparing", "not_compared", "not_landed"])
    transaction = serializers.CharField(required=False, allow_null=True, help_text="of the target")
    reviewed = serializers.CharField(required=False, help_text="the transaction that was reviewed")
    comparison = serializers.IntegerField(required=False, allow_null=True)
    reason = serializers.CharField(required=False)
    inserted = serializers.IntegerField(required=False)
    deleted = serializers.IntegerField(required=False)
    updated = serializers.IntegerField(required=False)


class MergeSerializer(serializers.Serializer[Any]):
    """A merge with its rebuild and what became of it."""

    merge_commit = serializers.CharField()
    state = serializers.ChoiceField(choices=words(MergeState.choices()))
    method = serializers.ChoiceField(choices=words(states.METHOD_CHOICES))
    rebuild = serializers.ChoiceField(choices=words(states.REBUILD_CHOICES))
    targets = serializers.ListField(child=serializers.CharField())
    bypassed = BlockerSerializer(many=True, help_text="what was passed over")
    build = BuildStateSerializer(allow_null=True)
    outcome = serializers.DictField(child=OutcomeSerializer(), help_text="by dataset path")
    merged_by = serializers.CharField()


class PullDetailSerializer(PullSerializer):
    """A pull request with everything that decides its merge."""

    mergeable = serializers.BooleanField()
    blocked_by = BlockerSerializer(many=True)
    stale = serializers.BooleanField(
        help_text="the target has commits, or data of these datasets, that the branch did not start from"
    )
    reviews = ReviewSerializer(many=True)
    merge = MergeSerializer(allow_null=True)


class CommentSerializer(serializers.Serializer[Any]):
    """A comment."""

    id = serializers.IntegerField()
    author = serializers.CharField()
    body = serializers.CharField()
    anchor = serializers.DictField(allow_null=True, help_text="{path, line, side} or {dataset, key, column}")
    created_at = serializers.DateTimeField()


class TimelineEntrySerializer(serializers.Serializer[Any]):
    """Something that happened to a pull request."""

    kind = serializers.ChoiceField(choices=[*words(states.EVENT_CHOICES), "review", "comment"])
    actor = serializers.CharField(allow_null=True)
    at = serializers.DateTimeField()
    data = serializers.DictField()  # type: ignore[assignment]  # collected by DRF


class PullCheckSerializer(serializers.Serializer[Any]):
    """What a machine says of the head."""

    name = serializers.CharField()
    state = serializers.ChoiceField(choices=["green", "red", "pending"])
    detail = serializers.CharField()
    url = serializers.CharField()


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


class ComparedSerializer(serializers.Serializer[Any]):
    """Says which of its comparisons a dataset is shown by."""

    compared = serializers.ChoiceField(choices=words(states.NAMED_CHOICES))


class PullDatasetSerializer(ComparedSerializer, ShownComparisonSerializer):
    """One dataset of a pull request."""

    id = serializers.IntegerField(allow_null=True, help_text="null until the first build makes it")
    path = serializers.CharField()
    lands = serializers.BooleanField(help_text="whether merging brings it to the target, by rebuilding it there")
    lands_reason = serializers.CharField(required=False, help_text="why not, such as: it was loaded on the source")
    compared_note = serializers.CharField(
        required=False, help_text="what else than the branch's own work the comparison shows, and why"
    )
    change = serializers.ChoiceField(choices=words(states.CHANGE_CHOICES))
    current = serializers.BooleanField(help_text="the branch's data was made by the branch's published code")
    rule_changes = serializers.ListField(
        child=serializers.CharField(), help_text="how the branch changes the review rules of pipeline.toml"
    )
    since = TargetSinceSerializer(allow_null=True, help_text="null where the target has not moved")


class PullDiffRowSerializer(DiffRowSerializer):
    """One changed row of a pull request."""

    both = serializers.BooleanField(
        required=False,
        help_text="both have changed it, the branch and, since the branch left it, the target",
    )


class PullRowsSerializer(ComparedSerializer, RowsSerializer):
    """One page of a row diff of a pull request."""

    rows = PullDiffRowSerializer(many=True)


class PullSchemaDiffSerializer(ComparedSerializer, SchemaDiffSerializer):
    """What differs between two schemas of a dataset of a pull request."""


class PullStatisticsSerializer(ComparedSerializer, StatisticsSerializer):
    """Each column in numbers at both ends of a comparison of a pull request."""
