"""NumPy and torch in one program: tensors as arrays, arrays as tensors, numbers in torch's functions; gradients flow through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.transforms.flat_gradient import flatgrad

T = torch.linspace(0.2, 1.4, 12, dtype=torch.float64).reshape(3, 4)
A = T.numpy().copy()


def both_ways(x: Any) -> Any:
    a = np.exp(x.numpy()) @ np.ones((4, 2))
    return (torch.from_numpy(a).sin() @ torch.ones(2, 3, dtype=torch.float64)).sum() + x.square().sum()


PROGRAMS: dict[str, tuple[Any, Any, Any]] = {  # the program, its argument, the gradient
    "numpy()": (lambda x: np.sin(x.numpy()).sum(), T, T.cos()),
    "np.asarray": (lambda x: (np.asarray(x) ** 2).sum(), T, 2 * T),
    "np.array": (lambda x: (np.array(x) * np.array(x.detach())).sum(), T, T),
    "from_numpy": (lambda a: torch.from_numpy(a).tanh().sum(), A, 1 - np.tanh(A) ** 2),
    "as_tensor": (lambda a: torch.as_tensor(a * 2).pow(2).sum(), A, 8 * A),
    "asarray": (lambda a: torch.asarray(a).pow(2).sum(), A, 2 * A),
    "torch.tensor": (lambda a: (torch.tensor(a) * 3).sum(), A, np.full((3, 4), 3.0)),
    "torch.tensor of a list": (lambda a: (torch.tensor([a[0, 0], 2.0], dtype=torch.float64) * 3).sum(), A, np.where(np.arange(12).reshape(3, 4) == 0, 3.0, 0.0)),
    "from_dlpack": (lambda a: torch.from_dlpack(a).pow(2).sum(), A, 2 * A),
    "back to NumPy": (lambda a: (torch.from_numpy(a).exp().numpy() * a).sum(), A, np.exp(A) * (1 + A)),
    "another dtype": (lambda a: torch.as_tensor(a, dtype=torch.float32).double().pow(2).sum(), A, 2 * A.astype(np.float32).astype(np.float64)),
    "a number": (lambda a: torch.special.xlog1py(a, torch.ones(3, dtype=torch.float64)).sum(), 2.0, 3 * np.log(2.0)),
    "both": (both_ways, T, None),
}


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # of torch's, where np.array has a tensor
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_flow_between_numpy_and_torch(name: str) -> None:
    f, x, wanted = PROGRAMS[name]
    if wanted is None:
        y = (torch.exp(root := T.clone().requires_grad_()) @ torch.ones(4, 2, dtype=T.dtype)).sin() @ torch.ones(2, 3, dtype=T.dtype)
        (wanted,) = torch.autograd.grad(y.sum() + root.square().sum(), root)
    value, (_, dx) = tg.grad(f, x)
    assert float(value) == pytest.approx(float(f(x))) and type(dx) is type(x)
    np.testing.assert_allclose(dx, wanted, 1e-12)
    primal = tg.trace(f, x)[1]
    for tape in (tg.gradtape(f, x).check(), flatgrad(primal).check()):
        again, (_, dx_again) = tape.play(x)
        assert float(again) == pytest.approx(float(value))
        np.testing.assert_allclose(dx_again, wanted, 1e-12)


def test_a_second_gradient_flows_through_both() -> None:
    def f(x: Any) -> Any:
        return (torch.from_numpy(np.sin(x.numpy())) ** 2).sum()
    (found,) = tg.gradient(lambda x: tg.gradient(f, x)[0].sum(), T)
    torch.testing.assert_close(found, 2 * torch.cos(2 * T))


def test_a_write_to_what_shares_memory_ends_the_use_of_the_other() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        a = y.numpy()
        y[0] = 0.0
        return y.sum() + a.sum()
    with pytest.raises(tg.MutationError, match="share memory"):
        tg.grad(f, T)

    def g(a: Any) -> Any:
        t = torch.from_numpy(a.copy())
        t[0] = 5.0
        return t.sum()
    np.testing.assert_allclose(tg.gradient(g, A)[0], np.where(np.arange(3)[:, None] == 0, 0.0, np.ones((3, 4))))


def test_what_torch_refuses_is_refused() -> None:
    with pytest.raises(TypeError):
        tg.trace(lambda a: torch.from_numpy(a[0, 0]), A)
    with pytest.raises(TypeError):
        tg.trace(lambda x: x.bfloat16().numpy(), T)
    before = torch.from_numpy, torch.from_dlpack
    tg.trace(lambda a: torch.from_numpy(a), A)
    assert (torch.from_numpy, torch.from_dlpack) == before


@pytest.mark.parametrize("f", [
    lambda x: (torch.sin(torch.as_tensor(x)) ** 2).sum().numpy() * 1.0, lambda x: (torch.sin(torch.from_numpy(x)) ** 2).sum().numpy(),
    lambda x: torch.as_tensor(x).sin().sum(), lambda x: np.sin(torch.as_tensor(x).exp().numpy()).sum(),
])
def test_compiled_calls_return_what_the_program_does(f: Any) -> None:
    step = tg.value_and_grad(f, warmup=1)
    for k in range(5):
        x = np.array([0.5, 1.0]) + k
        value, dx = step(x)
        assert type(value) is type(f(x)) and type(dx) is np.ndarray
        np.testing.assert_allclose(value, f(x))


@pytest.mark.parametrize("f", [np.linalg.norm, np.median, lambda t: np.percentile(t, 30), np.diff, np.nansum, np.nanmean, np.gradient, np.unwrap,
                               lambda t: np.quantile(t, 0.3), lambda t: np.average(t, returned=True)[0], lambda t: np.histogram(t, range=(0, 5))[0]])
def test_composites_of_numpys_on_a_tensor(f: Any) -> None:
    t = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    value, dt = tg.grad(lambda t: (f(t) * 1.0).sum(), t)[0], tg.gradient(lambda t: (f(t) * 1.0).sum(), t)[0]
    expected = tg.grad(lambda t: np.sum(f(t) * 1.0), t.numpy())
    np.testing.assert_allclose(value, expected[0])
    np.testing.assert_allclose(dt, expected[1][1])
