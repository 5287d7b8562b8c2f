"""Errors of the transforms API; their text is what the author of a transform reads."""


class DeclarationError(TypeError):
    """A transform is declared in a way that cannot work."""


class TransformError(RuntimeError):
    """A transform asked for something that its inputs or outputs cannot give."""


class CheckFailed(TransformError):
    """An expectation with `on_error="FAIL"` does not hold on the written data."""
