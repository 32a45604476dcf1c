"""What is added to tapegrad is added in one place: an op, a function of torch's, an op with a subtape, a pass, a backend, a kind of number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad import ops
from tapegrad.compile.backend import BACKENDS, Backend
from tapegrad.compile.native import backend as native
from tapegrad.numbers import systems
from tapegrad.ops.structure import put_results
from tapegrad.rules import op as entries
from tapegrad.rules import registry, types
from tapegrad.rules.facts import FRESH, Joint, Partials
from tapegrad.rules.op import Op
from tapegrad.rules.registry import lowering
from tapegrad.show.graph.cost import cost_of
from tapegrad.store.read import from_bytes
from tapegrad.store.write import to_bytes
from tapegrad.tape.subtape import Subtape
from tapegrad.tape.tape import Call, Tape
from tapegrad.transforms.walk import Walk

X = np.array([-1.5, -0.2, 0.3, 2.0])
TABLES: tuple[Any, ...] = (entries.OPS, registry.DISPATCH, registry.REGISTERED, systems.SYSTEMS, BACKENDS, ops.multiply.lower)
assert BACKENDS["native"] is native.native  # it registers itself when it is imported, which is not inside a test


@pytest.fixture(autouse=True)
def only_here() -> Iterator[None]:
    before = [dict(table) for table in TABLES]
    yield
    for table, was in zip(TABLES, before):
        table.clear()
        table.update(was)
    systems.forget()


def slope(f: Callable[[Any], Any], x: Any, v: Any, h: float = 1e-6) -> Any:
    return (f(x + h * v) - f(x - h * v)) / (2 * h)


def test_an_elementwise_op() -> None:
    def foreign(x: Any) -> Any:
        return x / (1.0 + np.abs(x))

    registry.define("softsign", foreign, Partials(lambda _i, dy, _y, x: dy / (1.0 + abs(x)) ** 2, pointwise=True), torch="nn.functional.softsign", memory=FRESH, spec=types.floating,
                    means=[foreign])

    def f(x: Any) -> Any:
        return np.sum(entries.OPS["softsign"](x) ** 2)
    v = np.cos(X)
    assert "softsign" in str(tg.trace(f, X)[1])
    expected = slope(f, X, v)
    assert tg.gradient(f, X)[0] @ v == pytest.approx(expected)
    assert tg.jvp(f, (X,), (v,))[1] == pytest.approx(expected)
    assert tg.value_and_grad(f, 0, warmup=1)(X)[1] @ v == pytest.approx(expected)
    assert float(tg.compile(tg.trace(f, X)[1], backend="torch")(X)) == pytest.approx(f(X))
    np.testing.assert_allclose(tg.vmap(f)(np.stack([X, v])), [f(X), f(v)])
    assert tg.gradient(lambda x: tg.gradient(f, x)[0] @ v, X)[0] @ v == pytest.approx(slope(lambda x: tg.gradient(f, x)[0] @ v, X, v), rel=1e-5)


def test_a_function_of_torch() -> None:
    def hardened(input: Any, slope: float = 0.1) -> Any:  # a library's, which calls C
        return torch.where(input > 0, input, input * slope)

    @registry.means(hardened)
    def _(input: Any, slope: float = 0.1) -> Any:
        return ops.where(input > 0, input, input * slope)
    x = torch.tensor(X, requires_grad=True)
    torch.sum(hardened(x) ** 2).backward()
    assert torch.equal(tg.gradient(lambda x: torch.sum(hardened(x) ** 2), x.detach())[0], x.grad)


class Twice(Subtape, Op):
    """A function of a tape, called on what it returns: of which the pullback plays the tape on what the tracer gives
    it, so that it is differentiated again.
    """

    kind = noun = "twice"
    count = 2

    def __init__(self, body: Tape) -> None:
        self.body = body
        super().__init__(f"twice {body.name}", self.twice, rule=Joint(self.pulled), torch=self.twice)

    def twice(self, x: Any) -> Any:
        return self.body.play(self.body.play(x)[0])[0]

    def pulled(self, _y: Any, x: Any) -> Callable[[Any], tuple[Any, ...]]:
        def twice_pullback(dy: Any) -> tuple[Any, ...]:
            (middle,), inner = tg.pullback(self.body.play, x)
            _, outer = tg.pullback(self.body.play, middle)
            return (inner((outer((dy,))[1],))[1],)
        return twice_pullback


def test_an_op_with_a_subtape() -> None:
    body = tg.trace(lambda x: np.sin(x) * 1.2, X)[1]
    put_results(body, [body.result])
    twice = Twice(body)

    def f(x: Any) -> Any:
        return np.sum(twice(x) * x)
    v, tape = np.cos(X), tg.trace(f, X)[1]
    assert tg.gradient(f, X)[0] @ v == pytest.approx(slope(f, X, v)) == tg.jvp(f, (X,), (v,))[1]
    assert tg.value_and_grad(f, 0, warmup=1)(X)[1] @ v == pytest.approx(slope(f, X, v))
    assert tg.hvp(f)(X, v) == pytest.approx(slope(lambda x: tg.gradient(f, x)[0], X, v), 1e-6)
    assert len(tape) == 5 and "return %4" in str(tape) and cost_of(tape[3]).flops == 2 * 2 * X.size  # of which passes and files know
    loaded = from_bytes(b"".join(to_bytes(tape)), {"f": f})
    assert str(loaded) == str(tape) and loaded.play(X) == f(X) == tg.optimise(loaded).play(X)
    tape[3].args = (*tape[3].args, 1.0)
    with pytest.raises(tg.TapeError, match="%3 is a twice of 1 arguments, and is given 2"):
        tape.check()


def test_a_pass() -> None:
    def squared(tape: Tape) -> Tape:
        """Write `x ** 2` as `x * x`."""
        walk = Walk(tape)
        for op in tape.ops:
            if type(op) is Call and op.fn is ops.pow and op.args[1] == 2:
                x = walk.bind(op.args[0])
                walk.stand_in(op, walk.new.push(Call(ops.multiply, (x, x), None, op.val).at(op)))
            else:
                walk.keep(op)
        return walk.done()
    tape = tg.trace(lambda x: np.sum(x ** 2), X)[1]
    better = tg.optimise(tape, passes=[squared])
    assert "pow" in str(tape) and "pow" not in str(better) and "multiply" in str(better)
    assert better.play(X) == tape.play(X)


def test_a_backend_that_prints() -> None:
    class Printing(Backend):
        def function(self, tape: Tape, fresh: Callable[[], bool] | None = None) -> Callable[..., Any]:
            calls = [op for op in tape.ops if type(op) is Call]
            return lambda *args: "\n".join(f"{op.name} = {op.fn.lower.get('printing', op.fn.__name__)}" for op in calls)
    lowering("printing", ops.multiply)("times")
    with pytest.raises(tg.DuplicateRule, match="the printing implementation of multiply"):
        lowering("printing", ops.multiply)("by")
    with pytest.raises(tg.DuplicateRule, match="multiply already declares its torch implementation"):
        lowering("torch", ops.multiply)("mul")

    def printing(device: Any, mode: str, passes: Any) -> Backend:
        return Printing(lambda tape: tg.optimise(tape, passes), mode)
    BACKENDS["printing"] = printing
    said = tg.compile(tg.trace(lambda x: np.sum(np.sin(x) * 2.0), X)[1], backend="printing")(X)
    assert sorted(line.split(" = ")[1] for line in said.splitlines()) == ["sin", "sum", "times"]


def test_a_kind_of_number() -> None:
    class Dual:
        """a + b e, where e * e is 0."""

        def __init__(self, a: float, b: float = 0.0) -> None:
            self.a, self.b = a, b

        def __mul__(self, other: Any) -> Dual:
            other = other if isinstance(other, Dual) else Dual(other)
            return Dual(self.a * other.a, self.a * other.b + self.b * other.a)

        def __add__(self, other: Any) -> Dual:
            other = other if isinstance(other, Dual) else Dual(other)
            return Dual(self.a + other.a, self.b + other.b)
        __rmul__, __radd__ = __mul__, __add__
    tg.numbers.register(Dual)
    value, (_, dx) = tg.grad(lambda x: x * x * x + 2 * x, Dual(3.0, 1.0))
    assert (value.a, value.b, dx.a, dx.b) == (33.0, 29.0, 29.0, 18.0)
