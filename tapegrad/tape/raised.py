"""raised: the guard on a call that raised, or did not raise, while tracing."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tapegrad.numbers.tensors import all_on_host


class Raised(NamedTuple):
    """The expectation that a call raises `error`, which the program may have caught.

    `never` reverses it: the call did not raise under `settings` (those of `np.errstate`, by name), which make errors of
    warnings; "warnings" among them stands for the program's own warning filters. The check then converts tensors to
    NumPy arrays. Filters set outside the traced program are not recorded: those of each call hold.
    """

    fn: Callable[..., Any]
    error: type[Exception]
    settings: tuple[tuple[str, str], ...] = ()
    never: bool = False

    def happens(self, given: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
        """Return whether the call raises, or does not raise, as it did while tracing."""
        args, kwargs = copy.deepcopy(given)  # the call may write to its arguments before it raises
        if self.settings:
            args, kwargs = all_on_host((args, kwargs))
        modes: Any = dict(self.settings)
        own = modes.pop("warnings", None)
        with np.errstate(**modes), warnings.catch_warnings(record=True):  # a check shows no warnings
            if own and issubclass(self.error, Warning):
                warnings.simplefilter("error", self.error)
            try:
                getattr(self.fn, "run", self.fn)(*args, **kwargs)
            except self.error:
                return not self.never
        return self.never

    def __repr__(self) -> str:
        return f"{'no ' if self.never else ''}{self.error.__name__} from {getattr(self.fn, '__name__', self.fn)}"
