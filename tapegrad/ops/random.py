"""random: ops that draw random numbers, again in each replay of the tape."""

from __future__ import annotations

from typing import Any

from tapegrad.numbers.tensors import on_host
from tapegrad.rules import types
from tapegrad.rules.facts import CONSTANT, DRAWS, FRESH
from tapegrad.rules.registry import define


# NumPy's generator draws on the host, so its numbers are the program's. They move to the device of the tensors that
# they are combined with.
def _draw(source: Any, *args: Any, method: str, **kwargs: Any) -> Any:
    return getattr(source, method)(*args, **kwargs)


draw = define("draw", _draw, rule=CONSTANT, effects=DRAWS, torch=on_host(_draw), memory=FRESH,
              spec=types.opaque("a random generator draws as it likes"))
default_rng = define("default_rng", lambda *args, make, **kwargs: make(*args, **kwargs), rule=CONSTANT, effects=DRAWS,
                     torch=on_host(lambda *args, make, **kwargs: make(*args, **kwargs)), memory=FRESH,
                     spec=types.opaque("a random generator draws as it likes"))
