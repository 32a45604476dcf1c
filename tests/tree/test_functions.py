"""tg.tree: map, leaves and ravel, of nested parameters and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tests.harness.compare import same

PARAMS: dict[str, Any] = {"W": np.arange(6.0).reshape(2, 3), "layers": [(1.0, np.ones(2, np.float32)), "tanh"], "flag": None}


@dataclass
class Line:
    slope: Any
    offset: Any
    name: str = "line"


@pytest.mark.quick
def test_a_step_along_a_gradient_is_one_call() -> None:
    line = Line(np.ones(2), 3.0)
    _, gradient = tg.value_and_grad(lambda line: (line.slope * line.offset).sum())(line)
    moved = tg.tree.map(lambda p, g: p - 0.5 * g, line, gradient)
    same((moved.slope, moved.offset, moved.name), (np.array([-0.5, -0.5]), 2.0, "line"))
    same(tg.tree.map(np.negative, PARAMS), {"W": -PARAMS["W"], "layers": [(-1.0, -np.ones(2, np.float32)), "tanh"], "flag": None})


def test_where_nothing_flows_the_value_stays() -> None:
    assert tg.tree.map(lambda p, g: p - g, {"a": 1.0, "n": 3}, {"a": 0.5, "n": None}) == {"a": 0.5, "n": 3}
    with pytest.raises(tg.ArgumentError):
        tg.tree.map(lambda p, g: p - g, {"a": 1.0}, [1.0])


def test_ravel_and_back() -> None:
    vector, unravel = tg.tree.ravel(PARAMS)
    assert vector.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 1.0, 1.0]  # keys in order
    again = unravel(vector)
    same(again, PARAMS)
    assert again["layers"][0][1].dtype == np.float32
    _, dx = tg.value_and_grad(lambda v: (unravel(v)["W"] ** 2).sum())(vector)
    assert dx.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 0.0, 0.0, 0.0]
    assert tg.tree.ravel([])[0].shape == (0,)
    flat, back = tg.tree.ravel([torch.ones(2, 2), torch.zeros(1)])
    assert flat.tolist() == [1.0, 1.0, 1.0, 1.0, 0.0] and back(flat)[0].shape == (2, 2)


def test_leaves() -> None:
    assert tg.tree.leaves({"b": [1.0, "x"], "a": 2}) == [2, 1.0]
