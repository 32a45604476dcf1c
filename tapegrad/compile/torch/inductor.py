"""inductor: compiles a lowered tape by Inductor, without Dynamo: the calls are known already."""

from __future__ import annotations

from typing import Any

import torch

from tapegrad.compile.numpy.function import Unfit
from tapegrad.compile.torch.function import Run
from tapegrad.compile.torch.functional_program import Whole
from tapegrad.compile.torch.fx import module_of
from tapegrad.compile.torch.memory_guards import Lowered
from tapegrad.errors import TapeError


def inductor(lowered: Lowered, leaves: list[Any]) -> Run:
    """Return the lowered tape compiled by Inductor. Raises Unfit if it computes on the host or Inductor fails."""
    from torch._inductor.compile_fx import compile_fx
    whole = Whole(lowered, leaves, "inductor")
    module = module_of(whole.tape)
    try:
        with torch.no_grad():
            compiled = compile_fx(module, [leaf.clone() for leaf in whole.leaves])
            compiled(*[leaf.clone() for leaf in whole.leaves])  # triggers the compilation deferred to the first call
    except TapeError:
        raise
    except Exception as err:
        raise Unfit(f"Inductor could not compile {lowered.of.name}: {type(err).__name__}: {err}", None,
                    'mode="eager"') from err

    def run(*args: Any, **kwargs: Any) -> Any:
        given = whole.entered(*args, **kwargs)
        with torch.no_grad():
            return whole.finish(compiled(*given))
    run.source, run.lowered = module.code, lowered  # type: ignore[attr-defined]
    return run
