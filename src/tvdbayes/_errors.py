"""What can go wrong, one class per stage; every error of ours is a `TVDBayesError`.

A message says what was wrong, what was got and what to do, in the user's own words.
"""

from typing import Any

from tvdbayes._typing import BoolArray, IntArray

__all__ = [
    "BoundaryWarning",
    "CollinearWarning",
    "ConvergenceWarning",
    "DataError",
    "FamilyError",
    "FormulaError",
    "Interrupted",
    "MemoryBudgetError",
    "MissingRowsWarning",
    "SeparationWarning",
    "SettingsError",
    "SmallGroupsWarning",
    "StorageError",
    "TVDBayesError",
    "TVDBayesWarning",
    "TooFewRowsWarning",
    "WildValueWarning",
    "listing",
]


class TVDBayesError(ValueError):
    """The root of every error that this package raises on purpose."""


class DataError(TVDBayesError):
    """Rows, weights or shapes that cannot be used."""


class FamilyError(TVDBayesError):
    """Outcomes that a family cannot produce, or a family that does not exist."""


class FormulaError(TVDBayesError):
    """A formula that cannot be read, or that asks for more than columns and known functions."""


class SettingsError(TVDBayesError):
    """An option outside its range."""


class StorageError(TVDBayesError):
    """A file that cannot be read back, or something that cannot be saved."""


class MemoryBudgetError(TVDBayesError):
    """Work that would need more memory than it was given."""


class Interrupted(KeyboardInterrupt):
    """Work that was stopped by hand. What was done is in `partial`; ``resume=`` goes on from it.

    ``kept`` says what is left of it in files.
    """

    def __init__(self, message: str, partial: Any, kept: str = "nothing was written") -> None:
        super().__init__(message)
        self.partial = partial
        self.kept = kept


class TVDBayesWarning(UserWarning):
    """The root of every warning of this package."""


class BoundaryWarning(TVDBayesWarning):
    """A dispersion, an inflation or a level that the data do not show."""


class CoarseWarning(TVDBayesWarning):
    """Rounding in an engine moves the answer by as much as its uncertainty."""


class CollinearWarning(TVDBayesWarning):
    """Columns that others already determine were left out, as asked."""


class ConvergenceWarning(TVDBayesWarning):
    """Some draws did not reach the requested accuracy; `status` says which."""


class SeparationWarning(TVDBayesWarning):
    """Some draws have their optimum at infinity; the search was bounded."""


class SmallGroupsWarning(TVDBayesWarning):
    """Too few rows share a covariate value for the answer to be free of bias."""


class TooFewRowsWarning(TVDBayesWarning):
    """Fewer groups of rows than the number of parameters asks for."""


class WildValueWarning(TVDBayesWarning):
    """A covariate or outcome with values far outside the others."""


class MissingRowsWarning(TVDBayesWarning):
    """Rows with gaps were left out, as asked."""


def listing(wrong: BoolArray, values: object, unit: str, numbers: IntArray | None = None) -> str:
    """Say how many are wrong and name the first: ``3 of 400 are not (first: -1.0 in row 17)``.

    ``numbers`` are what rows are called, where that is not their position.
    """
    first = int(wrong.argmax())
    value = values[first]  # type: ignore[index]
    called = first if numbers is None else int(numbers[first])
    verb = "is" if int(wrong.sum()) == 1 else "are"
    return f"{int(wrong.sum())} of {wrong.size} {verb} not (first: {value} in {unit} {called})"


def first_line(error: BaseException) -> str:
    """What a parser, an engine or the system says, without its own prefix and full stop."""
    text = str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
    return text.splitlines()[0].removeprefix("Error tokenizing data. C error: ").rstrip(".")
