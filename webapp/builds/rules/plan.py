"""From JobSpecs, targets, a chain and the state of datasets to a frozen plan; nothing here touches the world."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from webapp.builds.rules import fallback
from webapp.builds.rules.freshness import find_changed_files, name_files
from webapp.builds.rules.loads import Load
from webapp.builds.rules.values import (
    BuildPlan,
    Committed,
    DatasetState,
    PlannedInput,
    PlannedJob,
    PlannedOutput,
    Request,
    Spec,
)
from webapp.core.errors import AppError, InvalidInput

SHORT_SHA = 7
SpecFiles = Mapping[int, Mapping[str, str]]
"""A JobSpec's id → key → value, at its commit, of the files that jobs of its digest used while they ran."""
NO_FILES: SpecFiles = {}


class SpecBook:
    """Published JobSpecs by output, looked up along one chain."""

    def __init__(self, specs: Iterable[Spec], chain: Sequence[str]) -> None:
        self._chain = tuple(chain)
        self._by_place: dict[tuple[str, str], list[Spec]] = {}
        for spec in specs:
            for output in spec.outputs:
                self._by_place.setdefault((output.path, spec.branch), []).append(spec)

    def find(self, path: str) -> Spec | None:
        """Return the JobSpec of an output from the first branch of the chain that has one."""
        specs = [spec for branch in self._chain for spec in self._by_place.get((path, branch), ())]
        if not specs:
            return None
        for other in specs[1:]:
            if other.repository != specs[0].repository:
                message = f"Two repositories make {path}: {specs[0].place} and {other.place}."
                raise InvalidInput(
                    message,
                    code="two_repositories",
                    names=[specs[0].repository, other.repository],
                )
            if other.branch == specs[0].branch:
                message = f"Two transforms make {path}: {specs[0].place} and {other.place}."
                raise InvalidInput(
                    message,
                    code="two_transforms",
                    names=[specs[0].function, other.function],
                )
        return specs[0]

    def find_whole(self, path: str) -> Spec | None:
        """Return the JobSpec of an output after checking that it is the one for all its outputs."""
        spec = self.find(path)
        if spec is None:
            return None
        for output in spec.outputs:
            other = self.find(output.path)
            if other is not None and other.id != spec.id:
                message = (
                    f"{spec.place} makes {path} and {output.path}, "
                    f"but on this chain {output.path} is made by {other.place}."
                )
                raise InvalidInput(
                    message,
                    code="two_transforms",
                    names=[spec.function, other.function],
                )
        return spec


def list_involved_paths(*, specs: Iterable[Spec], request: Request) -> frozenset[str]:
    """Return every dataset whose state the plan of this request looks at."""
    book = SpecBook(specs, request.chain)
    selected = _select(book, request)
    paths = {path for spec in selected for path in spec.paths}
    return frozenset(paths | set(request.targets) | {load.path for load in request.loads})


def list_read_paths(*, specs: Iterable[Spec], request: Request) -> frozenset[str]:
    """Return every dataset that a job in the plan of this request reads."""
    selected = _select(SpecBook(specs, request.chain), request)
    return frozenset(declared.path for spec in selected for declared in spec.inputs)


def make_plan(
    *, specs: Iterable[Spec], request: Request, datasets: Mapping[str, DatasetState], files: SpecFiles = NO_FILES
) -> BuildPlan:
    """Decide jobs, inputs, outputs and freshness, or refuse with a code and the names involved."""
    book = SpecBook(specs, request.chain)
    selected = _select(book, request)
    _check_no_cycle(book, request.targets)
    _check_branches(selected, request, datasets)
    _check_loads(selected, request)
    planner = _Planner(request=request, datasets=datasets, book=book, files=files)
    loads = [planner.plan_load(number, load) for number, load in enumerate(request.loads, start=1)]
    transforms = [planner.plan_job(number, spec) for number, spec in enumerate(_order(selected), start=len(loads) + 1)]
    return BuildPlan(chain=request.chain, targets=request.targets, jobs=(*loads, *transforms))


def plan_alone(
    *,
    specs: Iterable[Spec],
    chain: tuple[str, ...],
    makers: Iterable[Spec],
    datasets: Mapping[str, DatasetState],
    files: SpecFiles = NO_FILES,
) -> dict[int, PlannedJob | AppError]:
    """Plan each of these JobSpecs as if nothing else were built: its job or why there is none, by the JobSpec's id.

    A loop of definitions above it is no matter of one job: the plan of a build refuses it.
    """
    book = SpecBook(specs, chain)
    alone: dict[int, PlannedJob | AppError] = {}
    for spec in makers:
        request = Request(chain=chain, targets=(spec.outputs[0].path,))
        try:
            selected = _select(book, request)
            _check_branches(selected, request, datasets)
            planner = _Planner(request=request, datasets=datasets, book=book, files=files)
            alone[spec.id] = planner.plan_job(1, selected[0])
        except AppError as error:
            alone[spec.id] = error
    return alone


def _select(book: SpecBook, request: Request) -> tuple[Spec, ...]:
    """Return the JobSpecs of the targets and, when asked, of everything they are made from."""
    if not request.targets and not request.loads:
        raise InvalidInput("Name at least one dataset to build.", code="no_targets")
    chosen: dict[int, Spec] = {}
    for target in request.targets:
        spec = book.find_whole(target)
        if spec is None:
            message = (
                f"No JobSpec makes {target} on any branch of the chain {' → '.join(request.chain)}. Commit a transform "
                "with it as output, or load a file into it."
            )
            raise InvalidInput(message, code="unknown_target", names=[target])
        chosen[spec.id] = spec
    waiting = list(chosen.values()) if request.upstream else []
    while waiting:
        for declared in waiting.pop().inputs:
            spec = book.find_whole(declared.path)
            if spec is not None and spec.id not in chosen:
                chosen[spec.id] = spec
                waiting.append(spec)
    return tuple(sorted(chosen.values(), key=_sort_key))


def _sort_key(spec: Spec) -> tuple[str, int]:
    return min(output.path for output in spec.outputs), spec.id


def _check_no_cycle(book: SpecBook, targets: Iterable[str]) -> None:
    """Walk everything above the targets, built or not: a loop of definitions has no right answer."""
    done: set[int] = set()
    for target in targets:
        spec = book.find(target)
        if spec is not None and spec.id not in done:
            _walk_up(book, spec, done)


def _walk_up(book: SpecBook, start: Spec, done: set[int]) -> None:
    trail: list[Spec] = [start]
    pending = [iter(start.inputs)]
    while trail:
        declared = next(pending[-1], None)
        if declared is None:
            done.add(trail.pop().id)
            pending.pop()
            continue
        spec = book.find(declared.path)
        if spec is None or spec.id in done:
            continue
        if any(spec.id == step.id for step in trail):
            loop = trail[[step.id for step in trail].index(spec.id) :]
            names = [min(output.path for output in step.outputs) for step in (*loop, spec)]
            # A trail goes from what is made to what it reads; people read data flow the other way.
            message = f"These datasets are made from each other: {' → '.join(reversed(names))}."
            raise InvalidInput(message, code="cycle", names=names[:-1])
        trail.append(spec)
        pending.append(iter(spec.inputs))


def _check_branches(selected: Sequence[Spec], request: Request, datasets: Mapping[str, DatasetState]) -> None:
    _check_declared_branches(selected, request.branch)
    for path in sorted({path for spec in selected for path in spec.paths}):
        state = datasets.get(path, DatasetState(path))
        fallback.check_chain(path=path, chain=request.chain, parents=state.parents)


def _check_loads(selected: Sequence[Spec], request: Request) -> None:
    """Refuse to load what a JobSpec of the same build makes: one of the two would be lost."""
    makers = {output.path: spec for spec in selected for output in spec.outputs}
    for load in request.loads:
        if load.path in makers:
            message = f"{makers[load.path].place} makes {load.path}: no file is loaded over it in the same build."
            raise InvalidInput(message, code="loaded_and_made", names=[load.path])


def _check_declared_branches(specs: Iterable[Spec], branch: str) -> None:
    for spec in specs:
        for declared in spec.inputs:
            if declared.branch is not None and declared.branch != branch:
                message = (
                    f"{spec.place} declares {declared.path} on branch {declared.branch}, but this build runs on {branch}: "
                    "all tables of a job are on the build's branch."
                )
                raise InvalidInput(
                    message,
                    code="branch_mismatch",
                    names=[declared.branch, branch],
                    path=declared.path,
                )


def _order(specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """Return the JobSpecs so that each comes after those that make its inputs; ties by path, so always the same."""
    maker = {output.path: spec.id for spec in specs for output in spec.outputs}
    needs = {spec.id: {maker[declared.path] for declared in spec.inputs if declared.path in maker} for spec in specs}
    ordered: list[Spec] = []
    placed: set[int] = set()
    while len(ordered) < len(specs):
        ready = next(spec for spec in specs if spec.id not in placed and needs[spec.id] <= placed)
        ordered.append(ready)
        placed.add(ready.id)
    return tuple(ordered)


@dataclass
class _Planner:
    """Plans jobs one after the other, remembering which running job makes which path."""

    request: Request
    datasets: Mapping[str, DatasetState]
    book: SpecBook
    files: SpecFiles

    def __post_init__(self) -> None:
        self._running: dict[str, int] = {}

    def plan_load(self, number: int, load: Load) -> PlannedJob:
        is_fresh = load.digest in self.request.loaded
        if not is_fresh:
            self._running[load.path] = number
        files = join_words(load.names)
        return PlannedJob(
            number=number,
            spec=0,
            repository="",
            spec_branch="",
            sha="",
            function="",
            file=files,
            line=0,
            profile="light",
            size="large",
            digest=load.digest,
            is_incremental=False,
            is_fresh=is_fresh,
            why=f"Loaded already: {files}" if is_fresh else f"Loads {files} again",
            inputs=(),
            outputs=(self._plan_output("file", load.path),),
        )

    def plan_job(self, number: int, spec: Spec) -> PlannedJob:
        inputs = tuple(self._plan_input(spec, declared.name, declared.path) for declared in spec.inputs)
        reason = self._find_reason(spec, inputs)
        if reason is None:
            why = self._explain_fresh(spec)
        else:
            why = reason
            self._running.update({output.path: number for output in spec.outputs})
        return PlannedJob(
            number=number,
            spec=spec.id,
            repository=spec.repository,
            spec_branch=spec.branch,
            sha=spec.sha,
            function=spec.function,
            file=spec.file,
            line=spec.line,
            profile=spec.profile,
            size=spec.size,
            digest=spec.digest,
            is_incremental=spec.is_incremental,
            is_fresh=reason is None,
            why=why,
            inputs=inputs,
            outputs=tuple(self._plan_output(output.name, output.path) for output in spec.outputs),
        )

    def _plan_input(self, spec: Spec, name: str, path: str) -> PlannedInput:
        branch = self.request.branch
        planned = PlannedInput(
            name=name,
            path=path,
            branch=branch,
            transaction=None,
            from_job=None,
            fallback=False,
        )
        if path in self._running:
            return replace(planned, from_job=self._running[path])
        pinned = self.request.pins.get(path)
        if pinned is not None:
            return replace(planned, branch=pinned.branch, transaction=pinned.id, fallback=pinned.branch != branch)
        head = self._newest(path)
        if head is None:
            raise InvalidInput(
                self._explain_missing(spec, path),
                code="input_missing",
                names=[path, spec.function],
            )
        read_from, committed = head
        return replace(
            planned,
            branch=read_from,
            transaction=committed.id,
            fallback=read_from != branch,
        )

    def _plan_output(self, name: str, path: str) -> PlannedOutput:
        parents = self._state(path).parents
        nearest = fallback.first_existing(self.request.chain, parents)
        is_new = nearest != self.request.branch
        return PlannedOutput(
            name=name,
            path=path,
            branch=self.request.branch,
            is_new=is_new,
            parent=nearest if is_new else None,
        )

    def _state(self, path: str) -> DatasetState:
        return self.datasets.get(path, DatasetState(path))

    def _newest(self, path: str) -> tuple[str, Committed] | None:
        """Return the first branch of the chain with a committed transaction, and that transaction."""
        committed = self._state(path).committed
        branch = fallback.first_existing(self.request.chain, committed)
        return None if branch is None else (branch, committed[branch])

    def _explain_missing(self, spec: Spec, path: str) -> str:
        chain = " → ".join(self.request.chain)
        maker = self.book.find(path)
        hint = f" {maker.place} makes it: build it first, or build with upstream." if maker else ""
        return f"{spec.place} reads {path}, which has no data on any branch of the chain {chain}.{hint}"

    def _find_reason(self, spec: Spec, inputs: Sequence[PlannedInput]) -> str | None:
        """Return why the job must run; None when its outputs already are what it would make."""
        if self.request.force or self.request.forced & {output.path for output in spec.outputs}:
            return "Asked to run even if fresh"
        return self._find_input_job(inputs) or next(
            (reason for output in spec.outputs if (reason := self._find_stale(spec, output.path, inputs))),
            None,
        )

    def _find_input_job(self, inputs: Sequence[PlannedInput]) -> str | None:
        jobs = sorted({planned.from_job for planned in inputs if planned.from_job is not None})
        if not jobs:
            return None
        return f"Input built by job{'s' if len(jobs) > 1 else ''} {join_words(jobs)}"

    def _find_stale(self, spec: Spec, path: str, inputs: Sequence[PlannedInput]) -> str | None:
        head = self._newest(path)
        if head is None:
            is_own = spec.branch == self.request.branch and len(self.request.chain) > 1
            return "New JobSpec on this branch" if is_own else f"{path} was never built"
        branch, newest = head
        if newest.digest is None:
            return f"Newest data on {branch} was written by {newest.writer}"
        if newest.digest != spec.digest:
            return f"Code changed in {spec.sha[:SHORT_SHA]}" if spec.sha else "Code changed"
        changed = find_changed_files(newest.files, self.files.get(spec.id, {}))
        if changed:
            return f"Changed since {newest.sha[:SHORT_SHA]}: {name_files(changed)}"
        pinned = {planned.path: planned.transaction for planned in inputs}
        moved = sorted(
            source for source in pinned.keys() | newest.inputs.keys() if pinned.get(source) != newest.inputs.get(source)
        )
        word = "Other" if self.request.pins.keys() & set(moved) else "Newer"
        return f"{word} data in {join_words(moved)}" if moved else None

    def _explain_fresh(self, spec: Spec) -> str:
        branches = {head[0] for output in spec.outputs if (head := self._newest(output.path))}
        places = "this branch" if branches == {self.request.branch} else join_words(sorted(branches))
        return f"Same code and input transactions as on {places}"


def join_words(words: Iterable[object]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    *first, last = [str(word) for word in words]
    return f"{', '.join(first)} and {last}" if first else last
