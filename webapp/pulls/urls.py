"""Pages and endpoints of pull requests."""

from __future__ import annotations

from django.urls import URLPattern, path

from webapp.pulls.api import pulls as api
from webapp.pulls.views import data, pull

_PAGE = "r/<str:repo>/pulls/<int:number>"
page_urls: list[URLPattern] = [
    path("pulls", pull.list_pulls, name="pulls"),
    path("r/<str:repo>/pulls", pull.list_pulls, name="repository-pulls"),
    path("r/<str:repo>/pulls/new", pull.new_pull, name="pull-new"),
    path(f"{_PAGE}/preview", pull.preview, name="pull-preview"),
    path(_PAGE, pull.show_conversation, name="pull"),
    path(f"{_PAGE}/merge-box", pull.show_merge_box, name="pull-merge-box"),
    path(f"{_PAGE}/news", pull.show_news, name="pull-news"),
    path(f"{_PAGE}/commits", pull.show_commits, name="pull-commits"),
    path(f"{_PAGE}/code", pull.show_code, name="pull-code"),
    path(f"{_PAGE}/schema", data.show_schema, name="pull-schema"),
    path(f"{_PAGE}/data", data.show_data, name="pull-data"),
    path(f"{_PAGE}/builds", pull.show_builds, name="pull-builds"),
    path(f"{_PAGE}/comment", pull.comment, name="pull-comment"),
    path(f"{_PAGE}/remark", pull.remark, name="pull-remark"),
    path(f"{_PAGE}/comments/<int:comment_id>/resolve", pull.resolve, name="pull-resolve"),
    path(f"{_PAGE}/comments/<int:comment_id>/reply", pull.reply, name="pull-reply"),
    path(f"{_PAGE}/comments/<int:comment_id>/edit", pull.edit_comment, name="pull-comment-edit"),
    path(f"{_PAGE}/comments/<int:comment_id>/delete", pull.delete_comment, name="pull-comment-delete"),
    path(f"{_PAGE}/comments/<int:comment_id>/versions", pull.show_versions, name="pull-comment-versions"),
    path(f"{_PAGE}/pending/<int:pending_id>/edit", pull.edit_pending, name="pull-pending-edit"),
    path(f"{_PAGE}/pending/<int:pending_id>/delete", pull.delete_pending, name="pull-pending-delete"),
    path(f"{_PAGE}/pending/discard", pull.discard_review, name="pull-pending-discard"),
    path(f"{_PAGE}/suggestions", pull.commit_suggestions, name="pull-suggestions"),
    path(f"{_PAGE}/viewed", pull.viewed, name="pull-viewed"),
    path(f"{_PAGE}/verdict", pull.judge, name="pull-verdict"),
    path(f"{_PAGE}/review", pull.review, name="pull-review"),
    path(f"{_PAGE}/reviewers", pull.reviewers, name="pull-reviewers"),
    path(f"{_PAGE}/update", pull.update, name="pull-update"),
    path(f"{_PAGE}/merge", pull.merge, name="pull-merge"),
    path(f"{_PAGE}/retry", pull.retry, name="pull-retry"),
    path(f"{_PAGE}/revert", pull.revert, name="pull-revert"),
    path(f"{_PAGE}/delete-branch", pull.delete_branch, name="pull-delete-branch"),
    path(f"{_PAGE}/restore-branch", pull.restore_branch, name="pull-restore-branch"),
    path(f"{_PAGE}/edit", pull.edit, name="pull-edit"),
    path(f"{_PAGE}/close", pull.close, name="pull-close"),
    path(f"{_PAGE}/reopen", pull.reopen, name="pull-reopen"),
    path(f"{_PAGE}/build", pull.build, name="pull-build"),
    path(f"{_PAGE}/compare-cancel", pull.compare_cancel, name="pull-compare-cancel"),
    path(f"{_PAGE}/compare-again", pull.compare_again, name="pull-compare-again"),
]
_PULL = "repositories/<str:repo>/pulls/<int:number>"
_DATASET = f"{_PULL}/datasets/<int:dataset_id>"
api_urls: list[URLPattern] = [
    path("repositories/<str:repo>/pulls", api.PullList.as_view(), name="api-pulls"),
    path(_PULL, api.PullDetail.as_view(), name="api-pull"),
    path(f"{_PULL}/commits", api.PullCommits.as_view(), name="api-pull-commits"),
    path(f"{_PULL}/files", api.PullFiles.as_view(), name="api-pull-files"),
    path(f"{_PULL}/datasets", api.PullDatasets.as_view(), name="api-pull-datasets"),
    path(f"{_PULL}/checks", api.PullChecks.as_view(), name="api-pull-checks"),
    path(f"{_PULL}/timeline", api.PullTimeline.as_view(), name="api-pull-timeline"),
    path(f"{_DATASET}/schema", api.PullSchema.as_view(), name="api-pull-schema"),
    path(f"{_DATASET}/spread", api.PullSpread.as_view(), name="api-pull-spread"),
    path(f"{_DATASET}/three-ways", api.PullThreeWays.as_view(), name="api-pull-three-ways"),
    path(f"{_DATASET}/verdict", api.PullDatasetVerdict.as_view(), name="api-pull-verdict"),
    path(f"{_DATASET}/rows", api.PullDatasetRows.as_view(), name="api-pull-rows"),
    path(f"{_DATASET}/rows.csv", api.PullRowsCsv.as_view(), name="api-pull-rows-csv"),
    path(f"{_DATASET}/rows.parquet", api.PullRowsParquet.as_view(), name="api-pull-rows-parquet"),
    path(f"{_DATASET}/statistics", api.PullStatistics.as_view(), name="api-pull-statistics"),
    path(f"{_PULL}/comments", api.PullComments.as_view(), name="api-pull-comments"),
    path(f"{_PULL}/comments/<int:comment_id>", api.PullComment.as_view(), name="api-pull-comment"),
    path(f"{_PULL}/pending-comments", api.PullPendingComments.as_view(), name="api-pull-pending-comments"),
    path(
        f"{_PULL}/pending-comments/<int:pending_id>",
        api.PullPendingComment.as_view(),
        name="api-pull-pending-comment",
    ),
    path(f"{_PULL}/suggestions", api.PullSuggestions.as_view(), name="api-pull-suggestions"),
    path(f"{_PULL}/reviews", api.PullReviews.as_view(), name="api-pull-reviews"),
    path(f"{_PULL}/reviewers", api.PullReviewers.as_view(), name="api-pull-reviewers"),
    path(f"{_PULL}/builds", api.PullBuilds.as_view(), name="api-pull-builds"),
    path(f"{_PULL}/close", api.PullClose.as_view(), name="api-pull-close"),
    path(f"{_PULL}/reopen", api.PullReopen.as_view(), name="api-pull-reopen"),
    path(f"{_PULL}/update", api.PullUpdate.as_view(), name="api-pull-update"),
    path(f"{_PULL}/merge", api.PullMerge.as_view(), name="api-pull-merge"),
    path(f"{_PULL}/revert", api.PullRevert.as_view(), name="api-pull-revert"),
    path(f"{_PULL}/restore-branch", api.PullRestoreBranch.as_view(), name="api-pull-restore-branch"),
]
