"""The kinds of what a torch program returns: the same in calls that are traced and compiled."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Record:
    a: Any
    b: Any


class Ordered(collections.OrderedDict):  # type: ignore[type-arg]
    pass


class Listed(list):  # type: ignore[type-arg]
    pass


def matrix(x: Any) -> Any:
    return x[:, None] * x + torch.eye(3)


RETURNS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: x.sort(),
    "Size": lambda x: x.shape,
    "Size of what is chosen": lambda x: x[x > 1].shape,
    "array": lambda x: x.detach().numpy(),
    "array that is made": lambda x: np.asarray(x.detach()) * 2,
    "array without a gradient": lambda x: np.array([1.0, 2.0]),
    "integers": lambda x: x.long().numpy(),
    "NumPy's number": lambda x: np.float64(x.detach().sum().item()),
    "0-d array": lambda x: x.sum().detach().numpy(),
    "numbers": lambda x: [x.sum().item(), int(x.argmax()), x.numel()],
    "list of numbers": lambda x: x.detach().tolist(),
    "dict": lambda x: {"s": x.max(0), "n": x.size(), "a": (x * 2).detach().numpy()},
    "named tuple": lambda x: Pair(Pair(x.sort(), 1), x.shape),
    "dataclass": lambda x: Record(x * 2, [x.max(0)]),
    "subclass of a dict": lambda x: Ordered(a=x, b=x.detach().numpy()),
    "subclass of a list": lambda x: Listed([x, x.size()]),
    "deque": lambda x: collections.deque([x, x.detach().numpy()]),
    "linalg": lambda x: [torch.linalg.qr(matrix(x)), {"z": torch.linalg.slogdet(matrix(x)), "t": x.topk(2)}],
    "frexp, unique, stride": lambda x: (x.detach().frexp(), x.detach().unique(return_counts=True), x.stride()),
    "a named tuple with a constructor": lambda x: torch.nn.utils.rnn.pack_sequence([x, x[:2]]),
    "None": lambda x: (None, x.detach().numpy()),
}


def kinds(x: Any) -> Any:
    """Return the classes in a nest, and the dtypes."""
    if isinstance(x, dict):
        return type(x), {key: kinds(part) for key, part in x.items()}
    if dataclasses.is_dataclass(x):
        return type(x), kinds(vars(x))
    if isinstance(x, (tuple, list, collections.deque)):
        return type(x), [*map(kinds, x)]
    return type(x), getattr(x, "dtype", None)


@pytest.mark.parametrize("name", RETURNS)
def test_a_result_has_the_same_kinds_in_each_call(name: str) -> None:
    returned = RETURNS[name]
    step = tg.value_and_grad(lambda x: ((x * x).sum(), returned(x)), has_aux=True)
    plain = tg.compile(returned)
    for i in range(5):
        x = torch.arange(3.0, dtype=torch.float64) + 1 + i
        expected = returned(x)
        (_, aux), dx = step(x)
        for found in (aux, plain(x)):
            assert kinds(found) == kinds(expected)
            assert str(found) == str(expected)
        assert torch.equal(dx, 2 * x)
    if name not in ("subclass of a list", "NumPy's number"):  # an object that is made anew; a number that is asked for
        assert plain.stats.hits and step.stats.hits


def test_arrays_come_back_as_arrays_whatever_path_ran() -> None:
    """A program of arrays that meets tensors: the branches return an array, and a tensor."""
    weights = torch.tensor([1.0, 2.0])

    def f(x: Any) -> Any:
        y = weights * torch.from_numpy(x)
        return y if x[0] > 0 else y.numpy()
    run = tg.compile(f)
    for sign in [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, -1.0, 1.0]:
        x = np.array([sign, 3.0])
        assert kinds(run(x)) == kinds(f(x))


def test_a_backend_that_was_asked_for_returns_tensors() -> None:
    run = tg.compile(lambda x: np.sin(x) * 2, backend="torch", warmup=1)
    assert [type(run(np.ones(2))) for _ in range(3)] == [torch.Tensor] * 3
