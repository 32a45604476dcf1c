"""fx_import: tapes from graphs recorded by other libraries."""

from __future__ import annotations

from typing import Any

from tapegrad.tape.tape import Tape


def from_fx(module: Any, *args: Any) -> Tape:
    """Return the tape of a torch.fx GraphModule, recorded by running it on `args`; see compile/torch/fx.py, which
    imports torch.

    >>> import torch
    >>> tape = from_fx(torch.fx.symbolic_trace(lambda x, y: torch.sin(x) * y + 1), torch.ones(2), torch.ones(2))
    >>> tape.play(torch.zeros(2), torch.ones(2))
    tensor([1., 1.])
    """
    from tapegrad.compile.torch import fx
    return fx.from_fx(module, *args)
