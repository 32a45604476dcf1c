"""A NumPy program as a function of tensors, against torch's own gradient checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg

X = torch.tensor([0.2, 1.2, -0.7], dtype=torch.float64)


def program(x: Any, w: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = np.sin(x[i] * w)
    return {"waves": out, "count": 3, "sum": (out ** 2).sum()}


def test_gradients_of_first_and_second_order() -> None:
    f = tg.to_torch(program)
    x, w = X.clone().requires_grad_(), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: (f(x, w)["waves"], f(x, w)["sum"]), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: f(x, w)["sum"], (x, w))
    assert torch.equal(f(x, w)["count"], torch.tensor(3)) and not f(x, w)["count"].requires_grad


@pytest.mark.quick
def test_complex_tensors() -> None:
    z = torch.tensor([1 + 2j, 0.5 - 1j], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(tg.to_torch(lambda z: (np.abs(z * z) ** 2).sum()), (z,))
    assert torch.autograd.gradcheck(tg.to_torch(lambda z: np.exp(z) * 1j), (z,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_needs_no_gradient_has_none(dtype: torch.dtype) -> None:
    a, b = torch.ones(2, dtype=dtype, requires_grad=True), torch.arange(2, dtype=dtype)
    y = tg.to_torch(lambda a, b, n: (a * b) ** n)(a, b, 2)
    assert y.dtype == dtype
    y.sum().backward()
    assert a.grad is not None and a.grad.dtype == dtype and a.grad.tolist() == [0.0, 2.0] and b.grad is None
    assert not tg.to_torch(lambda b: b * 2)(b).requires_grad


def test_a_layer_of_a_module_learns() -> None:
    torch.manual_seed(0)
    smooth = tg.to_torch(lambda x, k: np.convolve(x, np.exp(-k * np.arange(5.0) ** 2), mode="same"))
    k = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    x = torch.randn(50, dtype=torch.float64)
    target = smooth(x, torch.tensor(0.3, dtype=torch.float64))
    optimiser = torch.optim.Adam([k], lr=0.1)
    for _ in range(150):
        optimiser.zero_grad()
        ((smooth(x, k) - target) ** 2).sum().backward()
        optimiser.step()
    assert abs(k.item() - 0.3) < 1e-2


def test_an_error_is_the_programs() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        tg.to_torch(lambda a, b: a + b)(torch.ones(2), torch.ones(3))
