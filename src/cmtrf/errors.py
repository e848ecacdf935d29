"""Every exception and warning of the package. Each message says what happened, where, and what to do."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning


class CmtrfError(Exception):
    """Base of every error that this package raises on purpose."""


class DataError(CmtrfError, ValueError):
    """A table cannot be used as it is; the message names the column, the row and the value."""


class MissingFileError(DataError, FileNotFoundError):
    """The file to read (a table, a model), or the folder to write into, is not there."""


class UnknownIdError(CmtrfError, KeyError, ValueError):
    """An id that the model has never seen, where falling back to a prior is not wanted."""

    def __str__(self) -> str:  # KeyError shows the repr of its message
        return str(self.args[0]) if self.args else ""


class ParameterError(CmtrfError, ValueError):
    """A parameter has a value that cannot be, or that does not go with another one."""


class UnavailableError(CmtrfError, ValueError):
    """Something that the model as configured cannot answer; the message says what to pass."""


class OutputError(CmtrfError, OSError):
    """A path that cannot be written to."""


class NumericalError(CmtrfError, ArithmeticError):
    """Numbers have left what a machine can hold."""


class ModelFileError(CmtrfError, ValueError):
    """A file is not a model of this package, or is truncated, changed or of another version."""


class DataWarning(UserWarning):
    """Something in a table that is allowed, and that its owner may want to know."""


class ScaleWarning(UserWarning):
    """A combination of parameters under which scales cannot say what one may hope for."""


class NotConvergedWarning(ConvergenceWarning):
    """A fit stopped before its objective settled: at ``max_sweeps``, or where numbers have no more precision."""
