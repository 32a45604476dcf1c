"""Calls with the module of the call before: whatever has been changed in it meanwhile, the answer is that of a fresh trace."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import nn

import tapegrad as tg
from tapegrad.compile.flatten_cache import FlattenedCall
from tapegrad.tree.unchanged import Unchanged, Uncheckable


class Settings:
    """What a model is configured with, as libraries keep it."""

    def __init__(self) -> None:
        self.scale, self.names, self.table, self.flags = 2.0, ["tanh"], {0: "a", "power": 1.0}, {"on"}


class Model(nn.Module):
    """A module with everything that modules hold."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Dropout(0.5)])
        self.register_buffer("shift", torch.tensor([0.5, -0.5]))
        self.settings, self.factor, self.weights = Settings(), 1.5, [torch.tensor([1.0, 2.0])]
        self.inner: dict[str, Any] = OrderedDict(act=torch.sin)

    def forward(self, x: Any) -> Any:
        """Return two numbers for each row."""
        y = torch.tanh(self.first(x)) if "tanh" in self.settings.names else self.first(x)
        y = self.second(y) * self.settings.scale + self.shift
        for block in self.blocks:
            y = block(y)
        if "on" in self.settings.flags:
            y = y * self.factor
        for weight in self.weights:
            y = y * weight
        return self.inner["act"](y) ** self.settings.table["power"] + len(self.settings.table)


def other_forward(self: Any, x: Any) -> Any:
    return self.second(self.first(x)) * 3.0


class Sub(Model):
    """Another class."""

    def forward(self, x: Any) -> Any:
        """Return something else."""
        return super().forward(x) * 2.0


CHANGES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda m: None,
    "a parameter's numbers": lambda m: m.first.weight.data.mul_(2.0),
    "a parameter's memory": lambda m: setattr(m.first.weight, "data", torch.ones(4, 3)),
    "another parameter": lambda m: setattr(m.first, "weight", nn.Parameter(torch.ones(4, 3))),
    "a parameter frozen": lambda m: m.first.weight.requires_grad_(False),
    "a parameter removed": lambda m: setattr(m.first, "bias", None),
    "a parameter tied": lambda m: setattr(m.blocks[0], "bias", m.second.bias),
    "a buffer": lambda m: setattr(m, "shift", torch.tensor([3.0, 1.0])),
    "a buffer's numbers": lambda m: m.shift.add_(1.0),
    "a module": lambda m: setattr(m, "second", nn.Linear(4, 2, bias=False)),
    "a module in a list": lambda m: m.blocks.append(nn.Linear(2, 2)),
    "modules in another order": lambda m: m.blocks.__init__([m.blocks[1], m.blocks[0]]),
    "a number": lambda m: setattr(m, "factor", 0.5),
    "a setting": lambda m: setattr(m.settings, "scale", 3.0),
    "a new setting": lambda m: setattr(m.settings, "more", 3.0),
    "other settings": lambda m: setattr(m, "settings", Settings()),
    "a list in the settings": lambda m: m.settings.names.clear(),
    "a dict in the settings": lambda m: m.settings.table.update(power=2.0),
    "a key of a dict": lambda m: m.settings.table.update({1: "b"}),
    "a set": lambda m: m.settings.flags.clear(),
    "a tensor in a list": lambda m: m.weights.append(torch.tensor([2.0, 1.0])),
    "another tensor in a list": lambda m: m.weights.__setitem__(0, torch.tensor([5.0, 1.0])),
    "a function in a dict": lambda m: m.inner.update(act=torch.cos),
    "the class": lambda m: setattr(m, "__class__", Sub),
    "the instance's forward": lambda m: setattr(m.first, "forward", MethodType(lambda self, x: torch.ones(2, 4) * x.sum(), m.first)),
    "a forward of its own": lambda m: setattr(m, "forward", MethodType(other_forward, m)),
    "the forward of a class of torch's": lambda m: setattr(nn.Linear, "forward", lambda self, x: x @ self.weight.T),
    "a hook": lambda m: m.second.register_forward_hook(lambda module, args, y: y * 2.0),
    "a hook of all": lambda m: HANDLES.append(nn.modules.module.register_module_forward_hook(lambda module, args, y: y * 1.5)),
    "training": lambda m: m.blocks.train(),
    "a dtype": lambda m: m.double(),
    "an attribute gone": lambda m: delattr(m.settings, "scale") or setattr(type(m.settings), "scale", 7.0),
}
HANDLES: list[Any] = []
LINEAR = nn.Linear.forward


def loss(m: Any, x: Any, by: float = 1.0) -> Any:
    return (m(x.to(m.second.weight.dtype)) ** 2).mean() * by


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_in_a_module_is_seen(change: str, captured: bool, request: pytest.FixtureRequest) -> None:
    def undo() -> None:
        for handle in HANDLES:
            handle.remove()
        HANDLES.clear()
        nn.Linear.forward = LINEAR  # type: ignore[method-assign]
        if "scale" in vars(Settings):
            del Settings.scale  # type: ignore[attr-defined]
    request.addfinalizer(undo)
    m = Model().eval()
    x = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
    f: Callable[..., Any] = (lambda x: loss(m, x)) if captured else loss
    args = (x,) if captured else (m, x)
    step = tg.value_and_grad(f, argnums=None, backend="torch", warmup=1)
    for _ in range(4):
        step(*args)
    assert step.stats.hits >= 3
    CHANGES[change](m)
    for k in range(3):
        given = (*args[:-1], x * (1.0 + k))
        torch.manual_seed(k)
        value, gradients = step(*given)
        torch.manual_seed(k)
        expected, wanted = tg.grad(f, *given)
        torch.testing.assert_close(value, expected)
        one, other = (gradients[0]["m"], wanted[0]["m"]) if captured else (gradients[1], wanted[1])
        assert one.keys() == other.keys()
        for name in one:
            assert (one[name] is None) == (other[name] is None), name
            if one[name] is not None:
                torch.testing.assert_close(one[name], other[name])


def test_arguments_by_name_in_another_order() -> None:
    m = Model().eval()
    x = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
    step = tg.compile(lambda m, *, a, b: loss(m, a) - 2.0 * loss(m, b), backend="torch", warmup=1)
    for k in range(4):
        wanted = loss(m, x * k) - 2.0 * loss(m, x + 1.0)
        torch.testing.assert_close(step(m, a=x * k, b=x + 1.0), wanted.detach())
        torch.testing.assert_close(step(m, b=x + 1.0, a=x * k), wanted.detach())
    tape = tg.trace(lambda m, *, a, b: loss(m, a) - 2.0 * loss(m, b), m, a=x, b=x + 1.0)[1]
    replay = tg.compile(tape, backend="torch")
    for _ in range(3):
        torch.testing.assert_close(replay(m, a=x, b=x + 1.0), replay(m, b=x + 1.0, a=x))


def test_what_a_call_holds_of_arguments_is_not_kept() -> None:
    m, x = Model(), torch.ones(2, 3)
    earlier = FlattenedCall(loss, (m, x), {"by": 2.0})
    assert not any(leaf is x for leaf in earlier.leaves)
    assert earlier.leaves_of((m, 2.0 * x), {"by": 3.0})[-1] == 3.0  # type: ignore[index]
    assert earlier.leaves_of((m, x[0]), {"by": 3.0}) is None
    assert earlier.leaves_of((m, x), {"by": 3}) is None
    assert earlier.leaves_of((Model(), x), {"by": 3.0}) is None
    assert earlier.leaves_of((m, x), {}) is None


def test_what_may_change_by_itself_is_looked_at_in_full() -> None:
    m = Model()
    for odd in (np.array(["a"]), bytearray(b"a"), iter([1]), np.array([None])):
        m.odd = odd
        with pytest.raises(Uncheckable):
            FlattenedCall(loss, (m, torch.ones(2, 3)), {})
    assert Unchanged([])()


class Labelled(np.ndarray):
    """An array with attributes."""


class Pair(tuple):
    """A tuple with attributes."""


class Plant:
    """What a program computes by, of no module."""

    def __init__(self) -> None:
        self.gain, self.rates, self.parts, self.table = 2.0, np.array([1.0, 2.0]), [1.5, [0.5]], {"a": 3.0, "names": ["sin"]}
        self.settings, self.shift = Settings(), np.array([1.0, 1.0]).view(Labelled)
        self.shift.by = np.array([0.5, 0.5])  # type: ignore[attr-defined]
        self.pair = Pair([1.0, 2.0])
        self.pair.by = 1.0  # type: ignore[attr-defined]
        self.links = scipy.sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))


def response(plant: Plant, x: Any) -> Any:
    y = np.sin(x) if "sin" in plant.table["names"] else x * plant.table["a"]
    y = y * plant.gain + np.sum(plant.rates) * plant.settings.scale + plant.parts[0] * plant.parts[1][-1]
    return y * np.sum(plant.shift * plant.shift.by) + plant.pair[0] * plant.pair.by + np.sum(plant.links @ plant.rates) * len(plant.parts)  # type: ignore[attr-defined]


PLANT_CHANGES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda p: None,
    "a number": lambda p: setattr(p, "gain", 5.0),
    "a number of another kind": lambda p: setattr(p, "gain", 5),
    "an array's numbers": lambda p: p.rates.__setitem__(0, 7.0),
    "an array": lambda p: setattr(p, "rates", np.array([3.0, 1.0])),
    "an array of another kind": lambda p: setattr(p, "rates", np.array([3.0, 1.0], np.float32)),
    "a number in a list": lambda p: p.parts.__setitem__(0, 4.0),
    "a list in a list": lambda p: p.parts[1].append(4.0),
    "a dict": lambda p: p.table.update(a=8.0),
    "a list in a dict": lambda p: p.table["names"].clear(),
    "an object's number": lambda p: setattr(p.settings, "scale", 9.0),
    "another object": lambda p: setattr(p, "settings", Settings()) or setattr(p.settings, "scale", 4.0),
    "the attribute of an array": lambda p: setattr(p.shift, "by", np.array([2.0, 3.0])),
    "the attribute of a tuple": lambda p: setattr(p.pair, "by", 6.0),
    "numbers of a sparse matrix": lambda p: p.links.data.__setitem__(0, 6.0),
    "places of a sparse matrix": lambda p: p.links.indices.__setitem__(0, 1),
    "a sparse matrix": lambda p: setattr(p, "links", scipy.sparse.csr_array(np.eye(2))),
    "a new attribute": lambda p: setattr(p, "more", 1.0),
}


@pytest.mark.parametrize("lacking", [(), ("links",)], ids=["all", "without sparse"])
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("change", PLANT_CHANGES)
def test_what_has_changed_in_an_object_is_seen(change: str, captured: bool, lacking: tuple[str, ...]) -> None:
    plant = Plant()
    if lacking and "sparse" in change:
        pytest.skip("there is none")
    if lacking:
        plant.links = np.eye(2)
    f: Callable[..., Any] = (lambda x: response(plant, x)) if captured else response
    args = () if captured else (plant,)
    step = tg.value_and_grad(f, argnums=len(args), warmup=1)
    for k in range(4):
        step(*args, 0.5 + k)
    assert step.stats.hits >= 3
    PLANT_CHANGES[change](plant)
    for k in range(3):
        assert step(*args, 0.25 + k) == tg.grad(f, *args, 0.25 + k, argnums=len(args))
        assert step(*args, 0.25 + k)[0] == pytest.approx(float(f(*args, 0.25 + k)), rel=1e-14)


@pytest.mark.parametrize("mode", ["native", "numpy"])
@pytest.mark.parametrize("held", [{0: 2.0}, [2.0]])
def test_a_variable_that_two_functions_share(mode: str, held: Any) -> None:
    def program(x: Any) -> Any:
        return scaled(x) + held[0]

    def scaled(x: Any) -> Any:
        return x * held[0]
    step = tg.value_and_grad(program, mode=mode, warmup=1)
    for k in range(1, 6):
        held[0] = float(k)
        assert step(0.5)[0] == 1.5 * k
    assert step.stats.hits == 4
