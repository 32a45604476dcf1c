"""raised: a guard's expectation of a call that raised, or did not."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tapegrad.numbers.tensors import all_on_host


class Raised(NamedTuple):
    """What a guard expects of a call that raised: the program may have caught it.

    With `never`, of one that did not, where NumPy's `settings` (of `np.errstate`, by name) would have made it an error,
    or, if "warnings" is among them, the program's filters of warnings: tensors that stand for arrays are computed with
    as such. Filters that stand around a call are those of each call.
    """

    fn: Callable[..., Any]
    error: type[Exception]
    settings: tuple[tuple[str, str], ...] = ()
    never: bool = False

    def happens(self, given: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
        """Return whether the call does again what it did."""
        args, kwargs = copy.deepcopy(given)  # what it writes to before it raises is the caller's
        if self.settings:
            args, kwargs = all_on_host((args, kwargs))
        modes: Any = dict(self.settings)
        own = modes.pop("warnings", None)
        with np.errstate(**modes), warnings.catch_warnings(record=True):  # nobody is shown what is only asked
            if own and issubclass(self.error, Warning):
                warnings.simplefilter("error", self.error)
            try:
                getattr(self.fn, "run", self.fn)(*args, **kwargs)
            except self.error:
                return not self.never
        return self.never

    def __repr__(self) -> str:
        return f"{'no ' if self.never else ''}{self.error.__name__} from {getattr(self.fn, '__name__', self.fn)}"
