"""differences and linear: compiled functions as one operation, differentiated without a rule: by finite differences,
or, for a linear function, by the function itself and its adjoint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from tapegrad.errors import ArgumentError, MissingRule
from tapegrad.numbers.cotangents import ZERO, conform
from tapegrad.numbers.formatting import name_of
from tapegrad.numbers.formatting import plain as value_of
from tapegrad.rules.facts import LINEAR, NESTED, PROGRAM, Joint, Partials, linear_in
from tapegrad.rules.op import UNSIZED, Op
from tapegrad.rules.readonly import reading
from tapegrad.rules.registry import DISPATCH, set_dispatch
from tapegrad.rules.user import primitive

_STEPS = {"central": float(np.finfo(float).eps) ** (1 / 3), "complex": 1e-30}


def differences(fn: Callable[..., Any], method: Literal["central", "complex"] = "central",
                step: float | None = None) -> Op:
    """Make a function one operation that is differentiated by finite differences.

    For functions that call C or another program and have no rule. `fn` takes real numbers and arrays by position and
    returns a number, an array, or a tuple of these. Each directional derivative calls `fn` twice (once for "complex");
    a gradient takes one per number that it differentiates by, a tangent one. "central": (f(x + h) - f(x - h)) / 2h with
    h = step * max(1, abs(x)); the default step is the cube root of the machine epsilon, which gives about ten digits
    for a smooth function (Nocedal and Wright, section 8.1). "complex": Im f(x + ih) / h, exact to rounding if `fn`
    takes complex numbers and is analytic. There is no second derivative. The returned op's `error(*args)` estimates the
    error of a derivative.

    >>> import math
    >>> import tapegrad as tg
    >>> gamma = tg.differences(math.lgamma)
    >>> value, (_, slope) = tg.grad(lambda x: gamma(x) * x, 3.0)
    >>> f"{slope:.8f}", gamma.error(3.0) < 1e-9
    ('3.46150019', True)
    """
    if method not in _STEPS:
        raise ArgumentError(f"there is no difference method {method!r}", None, '"central" or "complex"')
    scale = _STEPS[method] if step is None else step
    op = _named(fn, "differences_of")
    read = reading(fn, op.__name__)

    def shifted(args: tuple[Any, ...], kwargs: dict[str, Any], towards: Any, times: float = 1.0) -> Any:
        """Return the directional derivative of the value; `towards` has a direction, or None, for each argument."""
        if method == "complex":
            above = read(*[x if t is None else x + 1j * scale * t for x, t in zip(args, towards)], **kwargs)
            return _each(lambda y: np.imag(y) / scale, above)
        largest = max([1.0, *[_size(x, t) for x, t in zip(args, towards) if t is not None]])
        h = times * scale * largest
        above, below = (read(*[x if t is None else x + sign * h * t for x, t in zip(args, towards)], **kwargs)
                        for sign in (1.0, -1.0))
        return _each(lambda a, b: (a - b) / (2 * h), above, below)

    def along(args: tuple[Any, ...], i: int) -> Iterator[list[Any]]:
        """Yield the unit direction of each number of argument `i`."""
        x = args[i]
        for k in range(np.size(x)):
            unit = np.zeros(np.shape(x))
            unit.flat[k] = 1.0
            yield [None] * i + [unit if np.shape(x) else 1.0] + [None] * (len(args) - i - 1)

    def pull(i: int, dy: Any, *args: Any, **kwargs: Any) -> Any:
        slopes = [_dot(dy, shifted(args, kwargs, towards)) for towards in along(args, i)]
        return conform(np.reshape(slopes, np.shape(args[i])), args[i])

    def push(tangents: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
        return shifted(args, kwargs, tangents)

    def error(*args: Any, **kwargs: Any) -> float:
        """Estimate the largest error of a partial derivative: two steps differ by three times the finer one's error."""
        found = [0.0]
        for i in filter(lambda i: _is_real(args[i]), range(len(args))):
            for towards in along(args, i):
                one, two = (shifted(args, kwargs, towards, times) for times in (1.0, 2.0))
                found += map(float, map(np.max, _flat(_each(lambda a, b: np.abs(a - b) / 3, one, two))))
        return max(found)

    def refuse(*_: Any, **__: Any) -> Any:
        raise MissingRule(f"{op.__name__} is differentiated by finite differences, which have no derivative themselves",
                          None,
                          "write a rule for it in NumPy: @tg.primitive and @tg.rrule")

    pulled, pushed = (Op(f"{op.__name__}_{what}", run, Joint(refuse), spec=UNSIZED, effects=NESTED, tangent=refuse)
                      for what, run in (("pullback", pull), ("pushforward", push)))

    def partial(i: int, dy: Any, _y: Any, *args: Any, **kwargs: Any) -> Any:
        return pulled(i, dy, *args, **kwargs) if _is_real(value_of(args[i])) else ZERO

    op.rule = Partials(partial)
    op.tangent = lambda tangents, _y, *args, **kwargs: pushed(tuple(tangents), *args, **kwargs)
    op.error = error  # type: ignore[attr-defined]
    return op


def linear(fn: Callable[..., Any], adjoint: Callable[..., Any] | None = None) -> Op:
    """Make a linear function of one number or array one operation that is its own derivative.

    For functions that call C: a wavelet transform, an operator on a grid. The first call for each shape checks
    linearity at two random points and raises ArgumentError if it fails. A gradient calls `adjoint`, which takes an
    array like the value and returns one like the argument; without it, `fn` is called once per number of the argument.
    Keyword arguments are constants.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> total = tg.linear(lambda x: np.frombuffer(x.tobytes()).cumsum())
    >>> tg.grad(lambda x: total(x * x)[-1], np.array([1.0, 2.0]))
    (np.float64(5.0), (None, array([2., 4.])))
    """
    probed: set[Any] = set()
    run = reading(fn, name_of(fn))

    def checked(x: Any, **kwargs: Any) -> Any:
        key = np.shape(x), *sorted(kwargs)
        if key not in probed:
            _probe(run, x, kwargs)
            probed.add(key)
        return run(x, **kwargs)

    def transposed(dy: Any, x: Any, **kwargs: Any) -> Any:
        if adjoint is not None:
            return adjoint(dy, **kwargs)
        units = np.eye(np.size(x)).reshape(-1, *np.shape(x))
        return np.reshape([np.vdot(run(unit, **kwargs), dy) for unit in units], np.shape(x))

    op = _named(fn, "linear")
    op.impl, op.read, op.tangent = checked, checked, LINEAR
    back = Op(f"{op.__name__}_adjoint", transposed, (lambda ddx, _dx, _dy, x, **kwargs: op(ddx, **kwargs), None),
              spec=UNSIZED, effects=PROGRAM, tangent=linear_in(0))
    op.rule = Partials((lambda dy, _y, x, **kwargs: back(dy, x, **kwargs),))
    return op


def _named(fn: Callable[..., Any], kind: str) -> Op:
    """Return a new op for a function; in traces, calls of the function by its module's name record this op."""
    op = primitive(fn)
    op.__name__ = f"{kind}_{op.__name__}"
    name, module = getattr(fn, "__name__", ""), sys.modules.get(str(getattr(fn, "__module__", None)))
    if getattr(module, name, None) is fn and fn not in DISPATCH and fn.__hash__ is not None:
        set_dispatch(fn, op)
    return op


def _probe(run: Callable[..., Any], x: Any, kwargs: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, *np.shape(x)))
    found, wanted = run(a - 2.5 * b, **kwargs), run(a, **kwargs) - 2.5 * run(b, **kwargs)
    if not np.allclose(found, wanted, rtol=1e-6, atol=1e-9 * (1 + np.max(np.abs(wanted), initial=0.0))):
        raise ArgumentError(f"{name_of(run)} is not linear: f(a - 2.5 b) is not f(a) - 2.5 f(b) at random points", None,
                            "tg.differences(fn), or @tg.primitive and @tg.rrule")


def _is_real(x: Any) -> bool:
    return not isinstance(x, (bool, str)) and getattr(np.asarray(x), "dtype", np.dtype(object)).kind == "f"


def _size(x: Any, t: Any) -> float:
    """Return the largest magnitude among the numbers that a direction varies."""
    return float(np.max(np.abs(np.where(np.asarray(t) != 0, x, 0.0)), initial=0.0))


def _each(of: Callable[..., Any], *values: Any) -> Any:
    if isinstance(values[0], tuple):
        return tuple(of(*map(np.asarray, parts)) for parts in zip(*values, strict=True))
    return of(*values)


def _flat(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


def _dot(dy: Any, dirs: Any) -> Any:
    return sum(np.vdot(a, b) for a, b in zip(_flat(dy), _flat(dirs), strict=True) if a is not None and np.size(a))
