"""What the code of an installed package leads to is kept from one trace to the next, and noticed where it has changed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tapegrad as tg
from tapegrad.trace import reference_cache
from tapegrad.trace.reference_search import ReferenceSearch

PACKAGE = '''
import collections
import torch
from . import state

LIST, TABLE, NESTED = [], {}, {"models": [[]]}
CURRENT = None
IDS = set()
QUEUE = collections.deque()

class Other:
    model = None

class Holder(Other):
    pass

HOLDER = Holder()

def make():
    model = None
    def put(x):
        nonlocal model
        model = x
    def get():
        return model
    return put, get

put, get = make()

def decorated(limits):
    def decorate(fn):
        def wrapper(x):
            return fn(x) if len(others()) >= limits["least"][0] else None
        return wrapper
    return decorate

@decorated({"least": [0.0]})
def same(x):
    return x

def default(model=None):
    return model

def keyword(*, model=None):
    return model

def others():
    found = [*LIST, *TABLE.values(), *NESTED["models"][0], CURRENT, *QUEUE, state.MODEL, Holder.model, vars(HOLDER).get("model"), get(), default(), keyword(),
             getattr(others, "model", None)]
    return [model for model in found if model is not None]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, x):
        return (self.weight * same(x)).sum() + (5.0 if id(self) in IDS else 0.0) + sum((model.weight ** 2).sum() for model in others())
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    name = f"closed_{abs(hash(request.node.name))}"
    folder = tmp_path / "site-packages"
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(PACKAGE)
    (folder / name / "state.py").write_text("MODEL = None")
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module(name)
    del sys.modules[name], sys.modules[f"{name}.state"]


def set_keyword(package: Any, model: Any) -> None:
    package.keyword.__kwdefaults__["model"] = model


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "a list": lambda package, model: package.LIST.append(model), "a dict": lambda package, model: package.TABLE.update(m=model),
    "a list in a list": lambda package, model: package.NESTED["models"][0].append(model),
    "a global": lambda package, model: setattr(package, "CURRENT", model), "a deque": lambda package, model: package.QUEUE.append(model),
    "another module": lambda package, model: setattr(package.state, "MODEL", model),
    "a class": lambda package, model: setattr(package.Holder, "model", model), "an object": lambda package, model: setattr(package.HOLDER, "model", model),
    "a captured variable": lambda package, model: package.put(model),
    "a default": lambda package, model: setattr(package.default, "__defaults__", (model,)), "a keyword's default": set_keyword,
    "a class that it derives from": lambda package, model: setattr(package.Holder, "__bases__", (type("Base", (package.Other,), {"model": model}),)),
    "a function's attribute": lambda package, model: setattr(package.others, "model", model)}


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_the_package_keeps_from_now_on(package: Any, way: str) -> None:
    def loss(model: Any, x: Any) -> Any:
        return model(x)
    model, x = package.Model(), torch.tensor([3.0, 4.0])
    step = tg.value_and_grad(loss, 0, backend="torch", warmup=1)
    for _ in range(3):
        torch.testing.assert_close(tg.grad(loss, model, x, argnums=0)[1]["weight"], x)
        torch.testing.assert_close(step(model, x)[1]["weight"], x)
    WAYS[way](package, model)
    wanted = x + 2 * model.weight.detach()
    for _ in range(3):
        torch.testing.assert_close(tg.grad(loss, model, x, argnums=0)[1]["weight"], wanted)
        torch.testing.assert_close(step(model, x)[1]["weight"], wanted)
    torch.testing.assert_close(tg.grad(loss, package.Model(), x, argnums=0)[1]["weight"], x)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What traces follow from now on."""
    nodes = list[Any]()

    def children(self: Any, node: Any) -> Any:
        nodes.append(node)
        return known(self, node)
    known = ReferenceSearch.children
    monkeypatch.setattr(ReferenceSearch, "children", children)
    return nodes


def test_a_package_is_followed_once(package: Any, followed: list[Any]) -> None:
    counts = []
    for _ in range(3):
        followed.clear()
        tg.grad(lambda model, x: model(x), package.Model(), torch.ones(2))
        counts.append(sum(getattr(node, "__module__", "") == package.__name__ for node in followed))
    assert counts[0] > 0 and counts[1:] == [0, 0]


def test_what_has_changed_once_is_not_followed_for_ever(package: Any, followed: list[Any]) -> None:
    def call() -> bool:
        followed.clear()
        tg.grad(lambda model, x: model(x), package.Model(), torch.ones(2))
        return package.others in followed
    call()
    assert not call()
    package.ADDED = 1.0
    assert call()
    assert [call() for _ in range(40)].count(True) < 40 and not call()


def test_a_package_is_followed_once_where_a_program_captures_functions_of_it(package: Any, followed: list[Any]) -> None:
    same, kind, model, counts = package.same, package.Model, package.Model(), []
    for _ in range(3):
        followed.clear()
        assert tg.grad(lambda x: model(same(x)) if isinstance(model, kind) else 0.0, torch.ones(2))[0] == 3.0
        counts.append(sum(node is package.others for node in followed))
    assert counts[0] > 0 and counts[1:] == [0, 0]
    package.LIST.append(model)
    for _ in range(2):
        assert tg.grad(lambda x: model(same(x)) if isinstance(model, kind) else 0.0, torch.ones(2))[0] == 8.0


def test_a_package_that_tells_objects_by_their_ids(package: Any) -> None:
    model, other = package.Model(), package.Model()
    package.IDS.add(id(model))
    for _ in range(3):
        assert tg.grad(lambda model, x: model(x), model, torch.ones(2))[0] == 8.0
        assert tg.grad(lambda model, x: model(x), other, torch.ones(2))[0] == 3.0


def test_worlds_are_few(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_cache, "_worlds", {})
    for number in range(reference_cache.KEPT + 2):
        kind = type(f"Model{number}", (package.Model,), {"__module__": package.__name__})
        tg.grad(lambda model, x: model(x), kind(), torch.ones(2))
    assert len(reference_cache._worlds) == reference_cache.KEPT


def test_what_is_used_stays(package: Any, followed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_cache, "_worlds", {})
    tg.grad(lambda model, x: model(x), package.Model(), torch.ones(2))
    for number in range(reference_cache.KEPT + 2):
        kind = type(f"Model{number}", (package.Model,), {"__module__": package.__name__})
        tg.grad(lambda model, x: model(x), kind(), torch.ones(2))
        followed.clear()
        tg.grad(lambda model, x: model(x), package.Model(), torch.ones(2))
        assert package.others not in followed


def test_what_moves_to_the_next_list_is_noticed() -> None:
    first, second, third = [object()], list[Any](), [object()]
    world = reference_cache.ReferenceCache({id(x): x for x in (first, second, third)}, {}, {}, {}, lambda x: False, lambda x: False)
    assert world.changed() == []
    second.append(first.pop())
    assert world.changed() == [first, second]
