"""The tabs of a pull request, and what its forms do."""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from webapp.accounts.permissions import signed_in
from webapp.accounts.services import note_reading
from webapp.comparisons.services import rerun_comparison
from webapp.core import pages
from webapp.core.errors import AppError, TooLarge
from webapp.core.numbers import read_count
from webapp.core.words import counted
from webapp.pulls import services
from webapp.pulls.forms import (
    CommentForm,
    EditCommentForm,
    EditPullForm,
    LoadForm,
    MergeForm,
    NewPullForm,
    RemarkForm,
    ReviewForm,
    SuggestionsForm,
    UpdateForm,
    VerdictForm,
)
from webapp.pulls.pages import checks, code, conversation, listing
from webapp.pulls.pages.preview import read_preview
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries import threads, timeline
from webapp.pulls.queries.expected import Expected, version_of_comment
from webapp.pulls.queries.pending import get_pending
from webapp.pulls.queries.places import is_of_column
from webapp.pulls.queries.remarks import RemarkReader
from webapp.pulls.queries.reviewers import is_group
from webapp.pulls.rules import states
from webapp.pulls.views.refused import act, refuse
from webapp.repositories.views.common import shows_code
from webapp.sql.services import note_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from django.http import HttpRequest

    from webapp.core.principals import Principal
    from webapp.pulls.models import Comment, PendingComment, PullRequest
    from webapp.pulls.pages.timeline import ConversationEntry

    Action = Callable[[HttpRequest, PullRequest, Principal], str]
    Form = Callable[[HttpRequest, str, int], HttpResponse]
    CommentAction = Callable[[HttpRequest, Comment, Principal], str]
    PendingAction = Callable[[HttpRequest, PendingComment, Principal], str]
    FormOfComment = Callable[[HttpRequest, str, int, int], HttpResponse]


@require_safe
def list_pulls(request: HttpRequest, repo: str = "") -> HttpResponse:
    """List pull requests, of one repository or of all."""
    page = listing.read_list(signed_in(request), repository=repo, parameters=request.GET)
    if repo and request.GET.get("fragment") == "sidebar":
        return pages.render(request, "pulls/_sidebar.html", page)
    template = "pulls/repository_pulls.html" if repo else "pulls/pulls.html"
    return pages.render(request, template, page)


@shows_code
def new_pull(request: HttpRequest, repo: str) -> HttpResponse:
    """Compare two branches and open a pull request."""
    principal = signed_in(request)
    page = listing.read_new(principal, repository=repo, parameters=request.GET)
    form = NewPullForm(request.POST or None, initial={"title": page.suggested_title, "body": page.suggested_body})
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            pull = services.open_pull(
                repository=page.repository, source=page.source, target=page.target, by=principal, **form.cleaned_data
            )
        except AppError as error:
            form.add_error(None, error.detail)
            status = 422
        else:
            messages.success(request, "Opened. The diffs of its datasets are being computed.")
            return redirect(reverse("pull", args=[repo, pull.number]))
    fields = {name: getattr(page, name) for name in page.__dataclass_fields__}
    return pages.render(request, "pulls/pull-new.html", {**fields, "page": page, "form": form}, status=status)


@require_safe
def show_conversation(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show what was said and done, and what stands against the merge."""
    before = read_count(request.GET.get("before", ""))
    page = conversation.read_conversation(
        signed_in(request), repo, number, before=before, shows_all_pending=request.GET.get("pending") == "all"
    )
    _note_quotes(request, repo, page.entries)
    return pages.render(request, "pulls/pull.html", page)


@require_safe
def show_merge_box(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the merge box alone, for the page that keeps asking, with what its reader has chosen and seen."""
    part = conversation.read_merge(signed_in(request), repo, number)
    context = {"head": part.head, "merge": part.merge, "chosen": request.GET}
    # htmx stops asking at 286; the page asks for what stands beside the box by itself then
    return pages.render(request, "pulls/_merge.html", context, status=200 if part.merge.moving else 286)


@require_safe
def show_news(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the entries of the timeline that came since the page was drawn; 204 where none did."""
    after, seen = read_count(request.GET.get("after", "")) or 0, request.GET.get("seen", "")
    news = conversation.read_news(signed_in(request), repo, number, after=after, seen=seen)
    if news is None:
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    _note_quotes(request, repo, news.entries)
    # verdict, counts, reviewers and the merge box say something else now, too
    return trigger_client_event(pages.render(request, "pulls/_news.html", news), "settled", after="settle")


def _note_quotes(request: HttpRequest, repo: str, entries: Iterable[ConversationEntry]) -> None:
    """Count a read of code if comments quote lines of it."""
    if any(entry.quote is not None and entry.quote.lines for entry in entries):
        note_reading(by=signed_in(request), verb="read_code", object=repo)


@require_safe
def show_commits(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show its commits with what came of publishing them."""
    page = code.read_commits(signed_in(request), repo, number, parameters=request.GET)
    return pages.render(request, "pulls/pull-commits.html", page)


@require_safe
@shows_code
def show_code(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the difference in code, or that it is more than is compared and how it can be seen."""
    principal = signed_in(request)
    try:
        page = code.read_code(principal, repo, number, parameters=request.GET)
    except TooLarge as refusal:
        large = code.read_large_code(principal, repo, number, reason=refusal.detail)
        return pages.render(request, "pulls/pull-code-large.html", large)
    return pages.render(request, "pulls/pull-code.html", page)


@require_safe
def show_builds(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the builds of the source branch, and of the merge."""
    page = code.read_builds(signed_in(request), repo, number, parameters=request.GET)
    return pages.render(request, "pulls/pull-builds.html", page)


@require_safe
def show_checks(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show what machines say of the head, and what came of its queries."""
    page = checks.read_checks(signed_in(request), repo, number)
    for query in page.list_read():
        note_rows(query=query, by=signed_in(request))
    return pages.render(request, "pulls/pull-checks.html", page)


# ---- forms ---------------------------------------------------------------------------------------------------------


def _url(repo: str, number: int) -> str:
    return reverse("pull", args=[repo, number])


def _read(form: Any) -> dict[str, Any]:
    """Return the cleaned form, with what is wrong left for the service to refuse in its own words."""
    form.is_valid()
    return {name: form.cleaned_data.get(name, "") for name in form.fields}


def _form(back: str = "") -> Callable[[Action], Form]:
    """Make a form's address of what it does to the pull request; it returns to the page `back` below it."""

    def wrap(action: Action) -> Form:
        @require_POST
        @functools.wraps(action)
        def view(request: HttpRequest, repo: str, number: int) -> HttpResponse:
            principal = signed_in(request)
            pull = queries.get_pull(principal, repo, number)
            back_url = f"{_url(repo, number)}{back}"
            return act(request, lambda: action(request, pull, principal), repo=repo, back=back_url)

        return view

    return wrap


@_form("#merge-title")
def comment(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Add a remark."""
    services.add_comment(pull=pull, body=_read(CommentForm(request.POST))["body"], by=by)
    return ""


@require_POST
def remark(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Comment on a line of code or on rows, and return there."""
    principal = signed_in(request)
    pull = queries.get_pull(principal, repo, number)
    form = RemarkForm(request.POST)
    body, anchor = _read(form)["body"], form.anchor()

    def action() -> str:
        add = _find_way(request)
        add(pull=pull, body=body, by=principal, anchor=anchor, expected=form.expected())
        return ""

    return act(request, action, repo=repo, back=_place_url(repo, number, anchor))


def _find_way(request: HttpRequest) -> Callable[..., Comment | PendingComment]:
    """Return what a form does with a comment: which of its two buttons was pressed."""
    return services.add_pending if request.POST.get("pending") else services.add_comment


def _of_comment(action: CommentAction) -> FormOfComment:
    """Make a form's address of what it does to a comment; it returns to the comment's thread, on the page it was on."""

    @require_POST
    @functools.wraps(action)
    def view(request: HttpRequest, repo: str, number: int, comment_id: int) -> HttpResponse:
        principal = signed_in(request)
        comment = threads.get_comment(queries.get_pull(principal, repo, number), comment_id)
        thread = comment.thread or comment
        is_beside = request.POST.get("page") == "beside"
        place = _place_url(repo, number, (thread.anchor or {}) if is_beside else {})
        back = f"{place.partition('#')[0]}#comment-{thread.pk}"
        return act(request, lambda: action(request, comment, principal), repo=repo, back=back)

    return view


@_of_comment
def reply(request: HttpRequest, comment: Comment, by: Principal) -> str:
    """Add to a comment's thread."""
    body = _read(CommentForm(request.POST))["body"]
    add = _find_way(request)
    add(pull=comment.pull, body=body, reply_to=comment.pk, by=by)
    return ""


@_of_comment
def edit_comment(request: HttpRequest, comment: Comment, by: Principal) -> str:
    """Change what a comment says."""
    services.edit_comment(comment=comment, by=by, **_read(EditCommentForm(request.POST)))
    return ""


@_of_comment
def delete_comment(request: HttpRequest, comment: Comment, by: Principal) -> str:
    """Take away what a comment says."""
    version = _read(EditCommentForm(request.POST))["expected_version"]
    services.delete_comment(comment=comment, by=by, expected_version=version)
    return "The comment is deleted."


@_of_comment
def resolve(request: HttpRequest, comment: Comment, by: Principal) -> str:
    """Say that a thread is dealt with, or that it is not."""
    services.resolve_comment(comment=comment, by=by, resolved=request.POST.get("resolved") == "1")
    return ""


def _of_pending(action: PendingAction) -> FormOfComment:
    """Make a form's address of what it does to a comment of the reader's own pending review; it returns to its place."""

    @require_POST
    @functools.wraps(action)
    def view(request: HttpRequest, repo: str, number: int, pending_id: int) -> HttpResponse:
        principal = signed_in(request)
        comment = get_pending(principal, queries.get_pull(principal, repo, number), pending_id)
        place = (comment.thread or comment).anchor or {}
        back = _place_url(repo, number, place) if request.POST.get("page") == "beside" else _url(repo, number)
        return act(request, lambda: action(request, comment, principal), repo=repo, back=back)

    return view


@_of_pending
def edit_pending(request: HttpRequest, comment: PendingComment, by: Principal) -> str:
    """Change what a pending comment says."""
    services.edit_pending(comment=comment, by=by, **_read(EditCommentForm(request.POST)))
    return ""


@_of_pending
def delete_pending(request: HttpRequest, comment: PendingComment, by: Principal) -> str:
    """Take a comment out of the review."""
    version = _read(EditCommentForm(request.POST))["expected_version"]
    services.delete_pending(comment=comment, by=by, expected_version=version)
    return "The comment is not part of your review any more."


@_form()
def discard_review(_request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Throw the pending review away."""
    services.discard_review(pull=pull, by=by)
    return "Your pending review is discarded."


@_form("/code")
def commit_suggestions(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Commit the suggestion whose button was pressed, or all that are chosen."""
    texts = request.POST.getlist("only") or request.POST.getlist("comments")
    numbers = [number for text in texts if (number := read_count(text)) is not None]
    fields = _read(SuggestionsForm(request.POST))
    commit = services.commit_suggestions(pull=pull, comments=numbers, by=by, **fields)
    return f"Committed as {commit.sha[:7]}."


@require_safe
def show_change(request: HttpRequest, repo: str, number: int, comment_id: int) -> HttpResponse:
    """Show the form that changes a comment, for the dialog that asks."""
    principal = signed_in(request)
    pull = queries.get_pull(principal, repo, number)
    comment, reader = threads.get_comment(pull, comment_id), RemarkReader.of(principal, pull)
    rights = {"may_edit": reader.may_edit(comment), "may_delete": reader.may_delete(comment)}
    return _show_change(request, pull, comment, is_pending=False, **rights)


@require_safe
def show_pending_change(request: HttpRequest, repo: str, number: int, pending_id: int) -> HttpResponse:
    """Show the form that changes a comment of the reader's own pending review."""
    principal = signed_in(request)
    pull = queries.get_pull(principal, repo, number)
    comment = get_pending(principal, pull, pending_id)
    return _show_change(request, pull, comment, is_pending=True, may_edit=True, may_delete=True)


def _show_change(
    request: HttpRequest, pull: PullRequest, comment: Comment | PendingComment, *, is_pending: bool, **rights: bool
) -> HttpResponse:
    forms = "pull-pending" if is_pending else "pull-comment"
    place = [pull.repository.name, pull.number, comment.pk]
    context = {
        "comment": comment,
        "version": version_of_comment(comment),
        "is_pending": is_pending,
        "edit_url": reverse(f"{forms}-edit", args=place),
        "delete_url": reverse(f"{forms}-delete", args=place),
        "preview_url": reverse("pull-preview", args=place[:2]),
        "page": request.GET.get("page", ""),
        **rights,
    }
    return pages.render(request, "pulls/_change_comment.html", context)


@require_safe
def show_versions(request: HttpRequest, repo: str, number: int, comment_id: int) -> HttpResponse:
    """Show what a comment said before, for the dialog that asks."""
    comment = threads.get_comment(queries.get_pull(signed_in(request), repo, number), comment_id)
    return pages.render(request, "pulls/_versions.html", {"versions": comment.versions.all()})


@require_safe
def show_descriptions(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the earlier descriptions, for the dialog that asks."""
    pull = queries.get_pull(signed_in(request), repo, number)
    return pages.render(request, "pulls/_versions.html", {"versions": timeline.list_descriptions(pull)})


@require_POST
def viewed(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Tick a file or a dataset as viewed, or not, and return to the list."""
    principal = signed_in(request)
    pull = queries.get_pull(principal, repo, number)
    place = request.POST.get("place", "")
    content = request.POST.get("content", "") if request.POST.get("viewed") else ""

    def action() -> str:
        services.mark_viewed(pull=pull, place=place, content=content, by=principal)
        return ""

    anchor = {"dataset": place} if place.startswith("/") else {"path": place}
    return act(request, action, repo=repo, back=_place_url(repo, number, anchor))


@require_POST
def preview(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show what a text will look like; nothing of it is kept."""
    return pages.render(request, "pulls/_preview.html", read_preview(signed_in(request), repo, number, request.POST))


@require_POST
def judge(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Accept or reject a dataset, or take that back, and return to it."""
    principal = signed_in(request)
    pull = queries.get_pull(principal, repo, number)
    fields = _read(VerdictForm(request.POST))
    path = fields.pop("dataset")

    def action() -> str:
        services.judge_dataset(row=queries.get_dataset_row(principal, pull, path), by=principal, **fields)
        return ""

    return act(request, action, repo=repo, back=_place_url(repo, number, {"dataset": path}))


def _place_url(repo: str, number: int, anchor: Mapping[str, Any]) -> str:
    """Return where on the pages a comment's place is."""
    if anchor.get("path"):
        return (
            f"{reverse('pull-code', args=[repo, number])}?{urlencode({'path': anchor['path']})}#file-{anchor['path']}"
        )
    if is_of_column(anchor):
        return f"{reverse('pull-schema', args=[repo, number])}#{anchor['dataset']}"
    if anchor.get("dataset"):
        return f"{reverse('pull-data', args=[repo, number])}?{urlencode({'dataset': anchor['dataset']}, safe='/')}"
    return _url(repo, number)


@_form()
def review(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Give a verdict."""
    fields = _read(ReviewForm(request.POST))
    services.add_review(
        pull=pull,
        verdict=fields["verdict"] or "",
        body=fields["body"],
        expected_head=fields["expected_head"],
        expected_target=fields["expected_target"],
        expected_data=fields["expected_data"],
        by=by,
    )
    return "Your review is recorded. It holds for exactly this code and these transactions."


@_form()
def reviewers(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Request a review, request it again, or withdraw the request. A name is that of a user, else of a group."""
    users, groups = request.POST.getlist("user"), request.POST.getlist("group")
    if name := request.POST.get("name", "").strip():
        (groups if is_group(name) else users).append(name)
    if request.POST.get("unask"):
        services.unask_reviewers(pull=pull, users=users, groups=groups, by=by)
        return f"{', '.join([*users, *groups])} is asked for a review no more."
    services.ask_reviewers(pull=pull, users=users, groups=groups, by=by)
    return f"{', '.join([*users, *groups])} is asked for a review."


@_form("#merge-title")
def update(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Bring the newest commits of the target into the source."""
    fields = _read(UpdateForm(request.POST))
    services.update_branch(
        pull=pull, by=by, expected_head=fields["expected_head"], method=fields["method"] or states.MERGE_METHOD
    )
    return f"{pull.source} has every commit of {pull.target} now."


@_form("#merge-title")
def choose_load(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Choose whether merging loads the files of a dataset on the target."""
    fields = _read(LoadForm(request.POST))
    row = queries.get_dataset_row(by, pull, fields.pop("dataset"))
    services.choose_load(row=row, by=by, **fields)
    return ""


@_form("#merge-title")
def merge(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Merge the code and start the rebuild."""
    fields = _read(MergeForm(request.POST))
    services.merge_pull(
        pull=pull,
        by=by,
        method=fields["method"] or "",
        rebuild=fields["rebuild"] or "",
        expected_head=fields["expected_head"],
        bypass=bool(fields["bypass"]),
    )
    return ""


@_form("#merge-title")
def queue_merge(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Ask for the merge when it is ready."""
    fields = _read(MergeForm(request.POST))
    services.enqueue_pull(
        pull=pull,
        by=by,
        method=fields["method"] or "",
        rebuild=fields["rebuild"] or "",
        expected_head=fields["expected_head"],
    )
    return "It merges by itself when it is ready."


@_form("#merge-title")
def leave_queue(_request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Ask for the merge no more."""
    services.leave_queue(pull=pull, by=by)
    return ""


@_form("#merge-title")
def retry(_request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Try the failed rebuild again."""
    return f"Build {services.retry_rebuild(pull=pull, by=by).pk} tries it again."


@require_POST
def revert(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Open a pull request that takes back what a merged one brought, and go there."""
    principal = signed_in(request)
    pull = queries.get_pull(principal, repo, number)
    try:
        opened = services.revert_pull(pull=pull, by=principal)
    except AppError as error:
        return refuse(request, error, repo=repo, back=f"{_url(repo, number)}#merge-title")
    messages.success(request, f"Opened. #{number} is reverted once this is merged.")
    return redirect(_url(repo, opened.number))


@_form("#merge-title")
def delete_branch(_request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Delete the source of one that is over."""
    services.delete_source(pull=pull, by=by)
    return f"{pull.source} is deleted."


@_form("#merge-title")
def restore_branch(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Bring the deleted source back."""
    data = services.restore_source(pull=pull, by=by)
    for path, reason in data.lost.items():
        messages.warning(request, f"{path} is not back on {pull.source}: {reason}")
    with_data = f", with its data of {counted(len(data.paths), 'dataset')}" if data.paths else ""
    return f"{pull.source} is back{with_data}."


@_form()
def edit(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Change the title, the text or the draft mark."""
    fields = _read(EditPullForm(request.POST))
    changes = {name: fields[name] for name in ("title", "body") if name in request.POST}
    if "draft" in request.POST:
        changes["draft"] = fields["draft"] == "1"
    services.update_pull(pull=pull, by=by, changes=changes, expected=Expected(version=fields["expected_version"]))
    return "Saved."


@_form()
def close(_request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Close without a merge."""
    services.close_pull(pull=pull, by=by)
    return ""


@_form()
def reopen(_request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Open again."""
    services.reopen_pull(pull=pull, by=by)
    return ""


@_form("/checks")
def rerun_check(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Run a query of the head once more."""
    services.rerun_check(pull=pull, name=request.POST.get("name", ""), by=by)
    return ""


@_form("/builds")
def build(request: HttpRequest, pull: PullRequest, by: Principal) -> str:
    """Build what the pull request modifies, on the branch or on equal inputs on both sides."""
    scope = "affected" if request.POST.get("scope") == "affected" else "modified"
    started = services.build_pull(pull=pull, by=by, sides=request.POST.getlist("sides") or ["head"], scope=scope)
    numbers = " and ".join(str(build.pk) for build in started)
    return f"Build {numbers} is started." if len(started) == 1 else f"Builds {numbers} are started."


@require_POST
def compare_cancel(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Stop a comparison that waits or runs."""
    principal = signed_in(request)
    pull = queries.get_pull(principal, repo, number)
    path, name = request.POST.get("dataset", ""), request.POST.get("compared", "")

    def action() -> str:
        services.cancel_pull_comparison(pull=pull, path=path, name=name, by=principal)
        return "The comparison is cancelled."

    return act(request, action, repo=repo, back=_data_url(repo, number, path, name))


@require_POST
def compare_again(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Run a failed comparison again."""
    principal = signed_in(request)
    pull = queries.get_pull(principal, repo, number)
    path, name = request.POST.get("dataset", ""), request.POST.get("compared", "")

    def action() -> str:
        comparison = queries.find_pull_comparison(principal, pull, path=path, name=name)
        if comparison is not None:
            rerun_comparison(comparison=comparison, by=principal)
        return ""

    return act(request, action, repo=repo, back=_data_url(repo, number, path, name))


def _data_url(repo: str, number: int, path: str, name: str) -> str:
    query = {"dataset": path, "compared": name} if name else {"dataset": path}
    return f"{reverse('pull-data', args=[repo, number])}?{urlencode(query, safe='/')}"
