"""argnums= and captured=: what of a gradient is asked for, and that nothing else is computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.cli import main
from tapegrad.rules.facts import direct
from tests.harness.compare import same

X, DATA = np.linspace(0.5, 1.5, 3), np.arange(12.0).reshape(4, 3) / 10
ASKED: list[tuple[Any, Callable[[tuple[Any, ...]], Any]]] = [
    (0, lambda dxs: dxs[0]), (-1, lambda dxs: dxs[2]), (np.int64(1), lambda dxs: dxs[1]), ((0,), lambda dxs: (dxs[0],)),
    ((2, 0), lambda dxs: (dxs[2], dxs[0])), ([1, -3], lambda dxs: (dxs[1], dxs[0])), ((), lambda dxs: ()),
]


def loss(x: Any, params: Any, scale: float) -> Any:
    return ((params["W"] @ x + params["b"]) ** 2).sum() * scale


def fitted(data: Any) -> Callable[[Any], Any]:
    return lambda x: ((data @ x - 1.0) ** 2).sum()


@pytest.mark.parametrize(("argnums", "pick"), ASKED)
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_what_is_asked_for_is_returned(argnums: Any, pick: Any, backend: str) -> None:
    args: tuple[Any, ...] = (X, {"W": DATA, "b": 1.0}, 2.0)
    if backend == "torch":
        args = (torch.tensor(X), {"W": torch.tensor(DATA), "b": 1.0}, 2.0)
    value, (_, *dxs) = tg.grad(loss, *args)
    expected = value, pick(tuple(dxs))
    same(tg.grad(loss, *args, argnums=argnums), expected)
    same(tg.pullback(loss, *args, argnums=argnums)[1](torch.tensor(1.0) if backend == "torch" else 1.0), expected[1])
    same(tg.gradtape(loss, *args, argnums=argnums).check().play(*args), expected)
    step = tg.value_and_grad(loss, argnums=argnums, backend=backend)
    for _ in range(3):
        same(step(*args), expected)
    assert step.stats.traces == 1


def test_what_was_captured() -> None:
    value, (df, dx) = tg.grad(fitted(DATA), X)
    assert set(df) == {"data"}
    for run in (lambda x: tg.grad(fitted(DATA), x, captured=False), tg.value_and_grad(fitted(DATA), argnums=None, captured=False)):
        for _ in range(3):
            found = run(X)
            same(found, (value, (None, dx)))
            assert found[1][0] is None
    same(tg.pullback(fitted(DATA), X, captured=False)[1](1.0), (None, dx))


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_what_is_not_asked_for_is_not_computed(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(i: int, rule: Any) -> Any:
        return lambda *args, **kwargs: (asked.append(i), rule(*args, **kwargs))[1]
    monkeypatch.setattr(tg.ops.matmul, "rule", direct(*[counted(i, rule) for i, rule in enumerate(tg.ops.matmul.partials)]))
    W, x = make(DATA), make(X)
    for run in (lambda: tg.grad(lambda W, x: ((W @ x) ** 2).sum(), W, x, argnums=1), lambda: tg.grad(fitted(W), x, argnums=0),
                lambda: tg.grad(fitted(W), x, captured=False), lambda: tg.pullback(fitted(W), x, argnums=0)[1](make(1.0)),
                lambda: tg.gradtape(fitted(W), x, argnums=0).play(x), lambda: tg.gradient(fitted(W), x)):
        asked.clear()
        run()
        assert set(asked) == {1}
    step = tg.value_and_grad(fitted(W), argnums=0, backend="numpy" if make is np.array else "torch")
    asked.clear()
    for _ in range(2):
        step(x)
    assert set(asked) == {1}
    products = [op for op in step.tapes[0] if isinstance(op, tg.Call) and op.fn is tg.ops.matmul]
    assert len(products) == 2  # W @ x, and W.T @ dy


def test_a_module_among_the_arguments() -> None:
    model, x = torch.nn.Linear(3, 2), torch.tensor(X, dtype=torch.float32)
    f = lambda model, x: (model(x) ** 2).sum()  # noqa: E731
    value, (_, dmodel, dx) = tg.grad(f, model, x)
    same(tg.grad(f, model, x, argnums=0), (value, dmodel))
    step = tg.value_and_grad(f, argnums=(1, 0), backend="torch")
    for _ in range(2):
        same(step(model, x), (value, (dx, dmodel)))


@pytest.mark.parametrize(("argnums", "message"), [
    (True, "argnums is True"), (1.0, "argnums is 1.0"), ("x", "argnums is 'x'"), ((0, False), "argnums is False"), (3, "no argument 3: 3 pos"),
    (-4, "from -3 to -1"), ((0, -3), "twice"),
])
def test_what_cannot_be_asked_for(argnums: Any, message: str) -> None:
    args = (X, {"W": DATA, "b": 1.0}, 2.0)
    for run in (lambda: tg.grad(loss, *args, argnums=argnums), lambda: tg.pullback(loss, *args, argnums=argnums),
                lambda: tg.gradtape(loss, *args, argnums=argnums), lambda: tg.value_and_grad(loss, argnums=argnums)(*args)):
        with pytest.raises(tg.ArgumentError, match=message):
            run()
    with pytest.raises(tg.ArgumentError, match="by position"):
        tg.grad(lambda *, x: x, x=1.0, argnums=0)
    with pytest.raises(tg.ArgumentError, match="by all its arguments"):
        tg.gradtape(tg.trace(loss, *args)[1], argnums=0)


def test_records_that_are_not_asked_for_are_no_hindrance() -> None:
    names = np.array(["a", 1.0], object)
    assert tg.grad(lambda x, names: x * x, 3.0, names, argnums=0) == (9.0, 6.0)
    with pytest.raises(tg.ArgumentError, match="array of objects"):
        tg.grad(lambda x, names: x * x, 3.0, names, argnums=1)


def test_higher_orders_saved_tapes_and_scipy(tmp_path: Path) -> None:
    inner = tg.value_and_grad(lambda x, y: (x ** 3).sum() * y, argnums=0)
    same(tg.grad(lambda x: (inner(x, 2.0)[1] * X).sum(), X, argnums=0)[1], 12 * X * X)
    for argnums in (1, (1, 0)):
        tape = tg.gradtape(loss, X, {"W": DATA, "b": 1.0}, 2.0, argnums=argnums)
        tape.save(tmp_path / "f.tape")
        loaded = tg.load(tmp_path / "f.tape", primitives={"loss": loss})
        args = (2 * X, {"W": DATA, "b": 0.5}, 3.0)
        for run in (tape.play, loaded.play, tg.compile(tape), tg.compile(loaded), tg.primitivize(tape).play):
            same(run(*args), tg.grad(loss, *args, argnums=argnums))
    minimize = pytest.importorskip("scipy.optimize").minimize
    found = minimize(tg.value_and_grad(fitted(DATA), argnums=0), X, jac=True)
    np.testing.assert_allclose(DATA.T @ (DATA @ found.x - 1.0), 0.0, atol=1e-4)


def test_saved_gradient_tapes_from_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argnums, shown in ((1, "dy    = 2.0\n"), ((1, 0), "dy    = 2.0\ndx    = 3.0\n")):
        tg.gradtape(lambda x, y: x * y, 2.0, 3.0, argnums=argnums).save(tmp_path / "f.tape")
        for command in ("play", "grad"):
            assert main([command, str(tmp_path / "f.tape")]) == 0
            assert capsys.readouterr().out == "value = 6.0\n" + shown
