"""NumPy's namespaces: each function and attribute has a meaning, is refused with advice, or takes no traced value."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.frontends.numpy.refused import REFUSED
from tapegrad.rules import CONSTRUCTORS, FOREIGN

# What stays as it is, and why that is safe
PLAIN = {
    "settings, input and output, text of settings": """
        errstate geterr geterrcall get_include get_printoptions getbufsize printoptions set_printoptions setbufsize seterr seterrcall
        show_config show_runtime info test genfromtxt load loadtxt fromfile fromregex fromstring frombuffer from_dlpack memmap""",
    "takes dtypes, shapes, counts or text, and returns plain values": """
        bartlett blackman hamming hanning broadcast_shapes diag_indices datetime_data dtype finfo iinfo isdtype issubdtype mask_indices
        mintypecode ndindex promote_types tril_indices triu_indices typename base_repr binary_repr""",
    "Python code that works on traced values, made of functions with a meaning": """
        fftfreq rfftfreq fromfunction isfortran isscalar iterable poly1d row_stack vectorize ndenumerate""",
    "C code, which asks for a plain array or number, and raises": """
        broadcast nditer nested_iters require format_float_positional format_float_scientific frompyfunc""",
    "matrices, records, dates and types of numbers: no arrays that are traced": """
        asmatrix bmat matrix recarray record busdaycalendar isnat flatiter ndarray""",
}
FACTS = "device dtype flags itemsize nbytes ndim shape size strides"  # attributes, read with a guard where a program may branch on them


def plain(space: Any) -> set[str]:
    return set(FACTS.split()) if space is np.ndarray else {name for names in PLAIN.values() for name in names.split()}


def public(space: Any) -> dict[str, Any]:
    found = {name: getattr(space, name) for name in dir(space) if not name.startswith("_")}
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType) and (callable(value) or space is np.ndarray)}


@pytest.mark.parametrize("space", [np, np.fft, np.ndarray], ids=["numpy", "numpy.fft", "ndarray"])
def test_everything_is_known_refused_or_plain(space: Any) -> None:
    unknown = {name for name, value in public(space).items()
               if value not in FOREIGN and value not in CONSTRUCTORS and not (isinstance(value, type) and issubclass(value, np.generic))}
    assert sorted(unknown - plain(space)) == []


@pytest.mark.parametrize("space", [np, np.fft, np.ndarray], ids=["numpy", "numpy.fft", "ndarray"])
def test_nothing_plain_has_a_meaning(space: Any) -> None:
    known = {name for name, value in public(space).items() if value in FOREIGN}
    assert sorted(known & plain(space)) == []


@pytest.mark.parametrize("fn", [fn for *_, functions in REFUSED for fn in functions], ids=lambda fn: fn.__name__)
def test_refuses_and_says_why(fn: Any) -> None:
    def f(x: Any) -> Any:
        return getattr(x, fn.__name__)() if hasattr(fn, "__objclass__") else FOREIGN[fn](x)
    with pytest.raises(tg.UnknownFunction) as caught:
        tg.trace(f, np.ones(3))
    assert "cannot be recorded" in caught.value.what and caught.value.try_ and "test_numpy.py" in str(caught.value)


def test_a_replay_follows_other_values() -> None:
    def f(x: Any) -> Any:
        return (np.unique(x) ** 2).sum()
    _, tape = tg.trace(f, np.array([1.0, 2.0, 2.0]))
    assert tape.play(np.array([1.0, 2.0, 3.0])) == 14.0
    _, (_, dx) = tg.gradtape(f, np.array([1.0, 2.0, 2.0])).play(np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(dx, [2.0, 6.0, 4.0])


def test_a_vectorized_function_guards_its_branches() -> None:
    f = np.vectorize(lambda x: x * x if x > 0 else -x)
    _, tape = tg.trace(lambda x: f(x), np.array([1.0, -2.0]))
    np.testing.assert_array_equal(tape.play(np.array([3.0, -1.0])), [9.0, 1.0])
    with pytest.raises(tg.GuardError):
        tape.play(np.array([-3.0, -1.0]))
