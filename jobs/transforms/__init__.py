"""The transforms API. Repositories import it as `transforms`, the same module objects under a shorter name.

Modules:
    api: what `from transforms.api import ...` gives.
    tables: what `from transforms.tables import ...` gives.
    expectations: what must hold of an output.
    declare: the decorators that declare transforms.
    seeds: files that are the whole of a dataset, as transforms.
    trace: the record of which files of a repository its code uses.
    interpreter_hooks: reports to the trace what Python opens, imports or asks for.
    file_watcher: reports to the trace which files libraries open, by inotify.
    stack_frames: which code of a repository is at work.
    fingerprints: when these files count as changed.
    bindings: what names stand for in the code of a module.
    inert: expressions that only make a value.
    libraries: which libraries reach what their caller does not name.
    module_code: the statements of a module, with what each binds and uses.
    reachable: which statements of a module certainly never run.
    held_values: what a transform's function holds, written as text.
    digest: a hash that stays only while a transform certainly computes the same.
    columns: which columns of its inputs a transform's code asks for, and which words it has.
    context: what a running transform knows: its connections, and `ctx`.
    inputs: one pinned input, read.
    outputs: one output, written on the job's staging branch.
    frames: pandas frames of Arrow tables, and back.
    sampled: inputs and outputs of a preview: samples, and rows that no table gets.
    checking: the checks of an output, run over what is staged.
    errors: what authors of transforms read when something is wrong.
"""

import importlib
import sys

_MODULES = ("api", "tables", "expectations")


def install() -> None:
    """Make `transforms`, `transforms.api`, `transforms.tables` and `transforms.expectations` importable."""
    sys.modules["transforms"] = sys.modules[__name__]
    for name in _MODULES:
        sys.modules[f"transforms.{name}"] = importlib.import_module(f"{__name__}.{name}")
