"""Names that people bring from other libraries, and slips."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.elsewhere import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_name_from_elsewhere_says_what_it_is_here(name: str) -> None:
    assert not hasattr(tg, name) and name not in tg.__all__
    with pytest.raises(AttributeError, match="here it is"):
        getattr(tg, name)
    for word in NAMES[name].replace(",", " ").replace("@", " ").split():
        if word.startswith("tg."):
            assert operator.attrgetter(word[3:].partition("(")[0])(tg), word


def test_slips() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'gard'; did you mean 'grad'\?"):
        tg.gard  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'$"):
        tg.zzz  # noqa: B018


@pytest.mark.parametrize("name", ["back", "flatgrad", "optimise", "primitivize", "rewrite", "roll", "transpose", "unroll"])
def test_a_function_is_no_tape(name: str) -> None:
    with pytest.raises(tg.ArgumentError, match=rf"<lambda> is not a tape(.|\n)*tg\.{name}\(tg\.trace"):
        getattr(tg, name)(lambda x: x)


MADE = ["compile", "hessian", "hvp", "jacobian", "sparse_jacobian", "value_and_grad"]


@pytest.mark.parametrize("name", MADE)
def test_a_value_is_no_function(name: str) -> None:
    with pytest.raises(tg.CallError, match=r"9\.0 is not a function(.|\n)*returned: tg\.value_and_grad\(f\)\(x\)"):
        getattr(tg, name)(9.0)


@pytest.mark.parametrize("name", MADE[1:])
def test_arguments_go_to_what_is_returned(name: str) -> None:
    with pytest.raises(tg.ArgumentError, match=rf"argnums is array(.|\n)*tg\.{name}\(f\)\(x\)") as caught:
        getattr(tg, name)(np.sum, np.ones(2))
    assert caught.value.__context__ is None  # no error of tapegrad's own beside it


def test_names_as_jax_has_them() -> None:
    a = np.array([1.0, 2.0])
    value, back = tg.vjp(lambda x, s=1.0: {"y": x * x * s}, a, s=3.0)
    assert value["y"].tolist() == [3.0, 12.0] and back({"y": np.ones(2)})[0].tolist() == [6.0, 12.0]
    for jac in (tg.jacfwd, tg.jacrev):
        assert jac(lambda x, y: x * y, argnums=1)(a, a).tolist() == [[1.0, 0.0], [0.0, 2.0]]
