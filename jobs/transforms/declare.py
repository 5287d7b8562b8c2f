"""Declaring transforms: `@transform.using`, `@transform.spark.using`, `@incremental`, `@configure`, `Check`.

A decorated function becomes a `Transform`: what the function reads, writes and needs, as data. Declaring has no effect
but to put it on the list that publication and jobs read (`list_declared`); calling it calls the function.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

from jobs.protocol import OnError, Profile, Size
from jobs.transforms.errors import DeclarationError
from jobs.transforms.expectations import Expectation

_PATH = re.compile(r"(/[A-Za-z0-9_-]+){2,}")
_SIZES: tuple[Size, ...] = ("small", "medium", "large")
_OPTIONS = "__transform_options__"
Function = TypeVar("Function", bound=Callable[..., Any])


class Check:
    """An expectation of an output, checked on the staged data before readers can see it.

    `on_error="FAIL"` fails the job, `"WARN"` only says so in its log and result.
    """

    def __init__(self, expectation: Expectation, name: str, on_error: OnError = "FAIL", description: str = "") -> None:
        if not isinstance(expectation, Expectation):
            raise DeclarationError(
                f"Check {name!r}: {expectation!r} is not an expectation, see transforms.expectations"
            )
        if not isinstance(name, str) or not name.strip():
            raise DeclarationError("A Check needs a name: Check(expectation, 'what must hold')")
        if on_error not in ("FAIL", "WARN"):
            raise DeclarationError(f"Check {name!r}: on_error is 'FAIL' or 'WARN', not {on_error!r}")
        self.expectation = expectation
        self.name = name
        self.on_error: OnError = on_error
        self.description = description

    def __repr__(self) -> str:
        return f"Check({self.expectation!r}, {self.name!r}, on_error={self.on_error!r})"


class TableInput:
    """A dataset that the transform reads. `branch` may only name the job's own branch."""

    def __init__(self, path: str, branch: str | None = None) -> None:
        self.path = check_path(path, "TableInput")
        if branch is not None and (not isinstance(branch, str) or not branch):
            raise DeclarationError(f"TableInput({path!r}): branch must be a name, not {branch!r}")
        self.branch = branch

    def __repr__(self) -> str:
        return f"TableInput({self.path!r})" if self.branch is None else f"TableInput({self.path!r}, {self.branch!r})"


class TableOutput:
    """A dataset that the transform writes; comes into being at the first build."""

    def __init__(self, path: str, checks: Sequence[Check] | Check = ()) -> None:
        self.path = check_path(path, "TableOutput")
        self.checks = (checks,) if isinstance(checks, Check) else tuple(checks)
        for check in self.checks:
            if not isinstance(check, Check):
                raise DeclarationError(f"TableOutput({path!r}): {check!r} is not a Check")
        names = [check.name for check in self.checks]
        for name in names:
            if names.count(name) > 1:
                raise DeclarationError(f"TableOutput({path!r}): two checks are named {name!r}")

    def __repr__(self) -> str:
        return f"TableOutput({self.path!r})"


def check_path(path: object, what: str) -> str:
    """Refuse what is no dataset path."""
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise DeclarationError(
            f"{what}: {path!r} is no dataset path; one looks like '/nyc/delays/daily': two or more parts of letters, "
            "digits, '_' and '-', each after a '/'"
        )
    return path


class Transform:
    """One declared transform."""

    def __init__(self, function: Callable[..., Any], parameters: dict[str, object], profile: Profile) -> None:
        self.function = function
        self.name = function.__name__
        self.module, self.declared_in, line = _find_declaring_module(function)
        # where a reader looks: at the function that a wrapper was put around
        own = inspect.unwrap(function).__code__
        is_own = own.co_filename == self.declared_in
        self.line = own.co_firstlineno if is_own else line
        self.profile = profile
        self.inputs = {name: value for name, value in parameters.items() if isinstance(value, TableInput)}
        self.outputs = {name: value for name, value in parameters.items() if isinstance(value, TableOutput)}
        self.size: Size = "small"
        self.is_incremental = False
        self.require_incremental = False
        self.semantic_version = 1
        self.wants_context = self._check(parameters)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        for apply in getattr(function, _OPTIONS, ()):
            apply(self)

    @property
    def description(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, for instance from a test of the repository."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<transform {self.module}:{self.name}>"

    def _check(self, parameters: dict[str, object]) -> bool:
        """Compare declaration and signature; return whether the function takes `ctx`."""
        if not self.outputs:
            raise DeclarationError(f"{self.name}: a transform needs at least one TableOutput")
        for name, value in parameters.items():
            if not isinstance(value, TableInput | TableOutput):
                raise DeclarationError(f"{self.name}: {name}={value!r} is neither a TableInput nor a TableOutput")
        paths = [output.path for output in self.outputs.values()]
        for path in paths:
            if paths.count(path) > 1:
                raise DeclarationError(f"{self.name}: two outputs write {path}")
        for source in self.inputs.values():
            if source.path in paths:
                raise DeclarationError(f"{self.name}: {source.path} is both an input and an output")
        return self._check_signature(parameters)

    def _check_signature(self, parameters: dict[str, object]) -> bool:
        signature = inspect.signature(self.function).parameters
        takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature.values())
        if missing := [name for name in parameters if name not in signature and not takes_any]:
            raise DeclarationError(f"{self.name}: the function has no parameter {missing[0]!r}, which is declared")
        wants_context = "ctx" in signature and "ctx" not in parameters
        for name, parameter in signature.items():
            is_named = parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
            is_given = name in parameters or (name == "ctx" and wants_context)
            if is_named and not is_given and parameter.default is inspect.Parameter.empty:
                raise DeclarationError(
                    f"{self.name}: nothing is declared for parameter {name!r}; declare a TableInput or TableOutput of "
                    "that name, or call it 'ctx' to get the context"
                )
        return wants_context


def _find_declaring_module(function: Callable[..., Any]) -> tuple[str, str, int]:
    """Return name, file and line of the module whose import declares a transform.

    A factory in another module only makes the function: importing that module again would declare nothing.
    """
    frame = sys._getframe(2)
    while frame is not None:
        scope = frame.f_globals
        name = str(scope.get("__name__"))
        module = sys.modules.get(name)
        # code made from a text has another file
        file = getattr(module, "__file__", None)
        is_own = module is not None and vars(module) is scope and file == frame.f_code.co_filename
        if is_own and frame.f_code.co_name == "<module>":
            return name, frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return function.__module__, function.__code__.co_filename, function.__code__.co_firstlineno


_declared: list[Transform] = []


def list_declared(module: str | None = None) -> list[Transform]:
    """List every transform declared so far in this process, in order; of one module if named."""
    return [entry for entry in _declared if module is None or entry.module == module]


def name_functions(transforms: Iterable[Transform]) -> dict[str, Transform]:
    """Name each transform `package.module:function`; several of one name get their first output, `…:function@/nyc/a`.

    The order in which they were declared does not count: transforms made in a loop over a set have none.
    """
    groups: dict[str, list[Transform]] = {}
    for entry in transforms:
        groups.setdefault(f"{entry.module}:{entry.name}", []).append(entry)
    named: dict[str, Transform] = {}
    for name, entries in groups.items():
        for entry in entries:
            first = min(output.path for output in entry.outputs.values())
            named[name if len(entries) == 1 else f"{name}@{first}"] = entry
    return named


class _Declaration:
    """`transform` and `transform.spark`: each declares for its profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile: Profile = profile

    def using(self, **parameters: TableInput | TableOutput) -> Callable[[Callable[..., Any]], Transform]:
        """Declare a transform; each keyword is a parameter of the function."""

        def declare(function: Callable[..., Any]) -> Transform:
            if isinstance(function, Transform):
                raise DeclarationError(f"{function.name} is declared twice")
            if not inspect.isfunction(function):
                raise DeclarationError(f"{function!r} is not a function: a transform is a plain function")
            declared = Transform(function, dict(parameters), self._profile)
            _declared.append(declared)
            return declared

        return declare


class _TransformDeclaration(_Declaration):
    def __init__(self) -> None:
        super().__init__("light")
        self.spark = _Declaration("spark")

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        raise DeclarationError(
            "Write @transform.using(...) for arrow, polars and pandas or @transform.spark.using(...) for Spark"
        )


transform = _TransformDeclaration()


@overload
def _with_option(target: Transform, apply: Callable[[Transform], None]) -> Transform: ...
@overload
def _with_option(target: Function, apply: Callable[[Transform], None]) -> Function: ...
def _with_option(target: Any, apply: Callable[[Transform], None]) -> Any:
    """Set an option on a transform, or note it on a function that is declared further up."""
    if isinstance(target, Transform):
        apply(target)
    else:
        setattr(target, _OPTIONS, (*getattr(target, _OPTIONS, ()), apply))
    return target


def incremental(
    *, require_incremental: bool = False, semantic_version: int = 1
) -> Callable[[Transform | Function], Transform | Function]:
    """Let the transform build on its previous output where its inputs only grew since the last build.

    In such a build `ctx.is_incremental` is true, inputs give the rows added since the last build of this output
    (`mode="current"` gives all of them) and outputs append unless `set_mode("replace")` says otherwise. A first build, a
    forced one, one after another `semantic_version`, and one whose inputs were rewritten is an ordinary, full one;
    `require_incremental=True` fails there, but for the first build and a forced one.
    """
    if callable(require_incremental):
        raise DeclarationError("Write @incremental() with parentheses")

    def apply(target: Transform) -> None:
        target.is_incremental = True
        target.require_incremental = require_incremental
        target.semantic_version = semantic_version

    return lambda target: _with_option(target, apply)


def configure(
    profile: Size | Sequence[Size] = "small",
) -> Callable[[Transform | Function], Transform | Function]:
    """Ask for more memory and time: `profile` is "small", "medium" or "large"."""
    chosen = profile if isinstance(profile, str) else profile[0] if len(profile) == 1 else None
    if chosen not in _SIZES:
        raise DeclarationError(f"configure(profile={profile!r}): one of {', '.join(map(repr, _SIZES))}")
    size: Size = chosen

    def apply(target: Transform) -> None:
        target.size = size

    return lambda target: _with_option(target, apply)
