"""A train loop that people recognise: gradients by tapegrad, steps by torch.optim, and after some of them what torch.autograd gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tapegrad as tg

STEPS = 25


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute what is small in one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def example() -> list[float]:
    """Run the example of docs/torch.md as it stands there; return the losses."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.randn(256, 2)
    labels = (x[:, 0] * x[:, 1] > 0).long()

    def loss(model: Any, x: Any, labels: Any) -> Any:
        return F.cross_entropy(model(x), labels)

    values = []
    for _ in range(100):
        value, (_, gradients, *_) = tg.grad(loss, model, x, labels)
        for name, p in model.named_parameters():
            p.grad = gradients[name]
        optimizer.step()
        values.append(value.item())
    return values


def test_the_example_of_the_documentation_learns() -> None:
    values = example()
    assert values[-1] < 0.5 * values[0]


class Net(nn.Module):
    """A small transformer, without biases: that of the keys has a gradient of rounding errors alone, which Adam would make steps of."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(10, 16), nn.Linear(16, 10)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout, batch_first=True, activation="gelu", bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x: Any) -> Any:
        return self.out(self.layer(self.embedding(x)))


def convolutional(dropout: float) -> Any:
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Dropout(dropout), nn.Linear(36, 10))


def tokens() -> tuple[Any, Any]:
    x = torch.randint(0, 10, (4, 6))
    return x, (x + 1) % 10


def images() -> tuple[Any, Any]:
    return torch.randn(8, 1, 6, 6), torch.randint(0, 10, (8,))


def cross_entropy(model: Any, x: Any, labels: Any) -> Any:
    return F.cross_entropy(model(x).flatten(0, -2), labels.flatten())


PROGRAMS: dict[str, tuple[Callable[[float], Any], Callable[[], tuple[Any, Any]]]] = {"transformer": (Net, tokens), "convolution": (convolutional, images)}
OPTIMIZERS: dict[str, Callable[..., Any]] = {"Adam": torch.optim.Adam, "SGD": lambda params, lr: torch.optim.SGD(params, lr, momentum=0.9)}


def trained(name: str, dtype: Any, dropout: float, optimizer: str, step: Callable[..., Any]) -> tuple[Any, list[Any]]:
    """Return the model after its steps, and the losses."""
    make, data = PROGRAMS[name]
    torch.manual_seed(0)
    model, (x, labels) = make(dropout).to(dtype), data()
    x = x.to(dtype) if x.is_floating_point() else x
    optimize = OPTIMIZERS[optimizer](model.parameters(), lr=1e-3)
    losses = []
    for number in range(STEPS):
        torch.manual_seed(number)  # for both the same numbers are dropped
        losses.append(step(model, x, labels))
        optimize.step()
    return model, losses


def by_torch(model: Any, x: Any, labels: Any) -> Any:
    model.zero_grad()
    value = cross_entropy(model, x, labels)
    value.backward()
    return value.detach()


def by_tapegrad(model: Any, x: Any, labels: Any) -> Any:
    value, (_, gradients, *_) = tg.grad(cross_entropy, model, x, labels)
    for name, p in model.named_parameters():
        p.grad = gradients[name]
    return value


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_end_where_those_of_torch_do(name: str, dtype: Any, dropout: float, optimizer: str) -> None:
    expected, wanted = trained(name, dtype, dropout, optimizer, by_torch)
    model, losses = trained(name, dtype, dropout, optimizer, by_tapegrad)
    torch.testing.assert_close(torch.stack(losses), torch.stack(wanted), rtol=1e-6, atol=1e-6)
    assert losses[-1] < losses[0]
    for (label, p), q in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-6, msg=lambda text, label=label: f"{label}: {text}")
