"""saved: an op that is one of torch's functions, whose pullback is torch's own kernel, on what the
forward kernel has saved.

Nothing is computed twice: the value's kernel keeps the means, the indices or the sums that the gradient's kernel asks
for. On a flat tape the two stand one after the other. The gradient's kernel has torch.autograd's derivative, of the
function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.frontends.torch.torchop import TorchOp, Vjp, moved, vjp_op
from tapegrad.numbers.cotangents import ZERO, ZeroTangent
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.facts import CLOSED, Joint, Rrule
from tapegrad.rules.op import Op
from tapegrad.rules.registry import of_frontend

Kernel = Callable[..., Any]


def saved(name: str, whole: Kernel, forward: Kernel, backward: Kernel, smooth: Kernel | None = None) -> Op:
    """Return the op of `whole(*tensors, **parameters) -> y`.

    `forward(*tensors, **parameters)` returns y and what is saved, `backward(dy, *saved, *tensors, **parameters)` the
    cotangents of the tensors, None where nothing flows. A tensor may be None. `smooth` is the function as torch can
    differentiate it twice, where that is another.
    """
    by_torch = vjp_op(TorchOp(name, smooth or whole))

    def run_back(dy: Cotangent, *rest: Any, kept: int, **how: Any) -> tuple[Any, ...]:
        # torch's gives one for each tensor that might be there
        return tuple(backward(dy, *rest, **how))[:len(rest) - kept]

    def back_vjp(y: Any, dy: Any, *rest: Any, kept: int, **how: Any) -> Any:
        tensors = rest[kept:]

        def pullback(d2: Any) -> tuple[Any, ...]:
            flowing = tuple(part for part, x in zip(unwrap(d2), tensors) if _has_derivative(x))
            d_dy, *dxs = Vjp(by_torch, unwrap((dy, *tensors)), (), how)(flowing)
            return (wrap(d_dy), *[ZERO] * kept, *map(wrap, dxs))
        return pullback

    def fore_vjp(y: Array, *tensors: Any, **how: Any) -> Any:
        def pullback(dys: Any) -> tuple[Any, ...]:
            return _back(dys[0], y[1:], tensors, how)
        return pullback

    def rule(*tensors: Any, **how: Any) -> Any:
        y, *kept = fore(*tensors, **how)
        return y, lambda dy: _back(dy, kept, tensors, how)

    def _back(dy: Cotangent, kept: Any, tensors: Any, how: dict[str, Any]) -> tuple[Any, ...]:
        if isinstance(dy, ZeroTangent):
            return (ZERO,) * len(tensors)
        return back(dy, *kept, *tensors, kept=len(kept), **how)  # type: ignore[no-any-return]

    back = Op(f"{name}_backward", _on_tensors(run_back), Joint(back_vjp), effects=CLOSED, torch=run_back)
    fore = Op(f"{name}_forward", _on_tensors(forward), Joint(fore_vjp), effects=CLOSED, torch=forward)
    op = Op(name, _on_tensors(whole), Rrule(rule), effects=CLOSED, torch=whole)
    for each in (op, fore, back):
        of_frontend(each)
    return op


def _on_tensors(kernel: Kernel) -> Kernel:
    def run(*args: Any, **how: Any) -> Any:
        return kernel(*moved(args), **how)
    return run


def _has_derivative(x: Any) -> bool:
    x = unwrap(x)
    return is_tensor(x) and (x.is_floating_point() or x.is_complex())
