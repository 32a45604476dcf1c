"""namespaces: what `python -m tests.fuzz.functions` calls: the functions of NumPy, SciPy and torch, arguments of many kinds, and forms of calls."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tapegrad.rules.registry import DISPATCH, Refusal
from tapegrad.trace.lazy_frontends import register_imported

Draw = np.random.Generator
Form = Callable[[Any, Any, Any], Any]


class Namespace(NamedTuple):
    """A library: its functions, kinds of arguments, forms of calls, and how a number comes of what a call returns.

    `open` are functions whose results are anyone's guess, `unordered` those where one order or sign is as good as another.
    """

    functions: dict[str, Callable[..., Any]]
    kinds: dict[str, Callable[[Draw], Any]]
    forms: dict[str, Form]
    open: frozenset[str] = frozenset()
    unordered: frozenset[str] = frozenset()


def form(text: str) -> Form:
    """Return what calls `f` as a text says, of `x` and `y`."""
    import torch
    return eval(f"lambda f, x, y: {text}", {"np": np, "torch": torch, "into": into})


def forms(*texts: str) -> dict[str, Form]:
    """Return forms by their texts."""
    return {text: form(text) for text in texts}


def into(f: Any, *args: Any, out: Any, **kwargs: Any) -> Any:
    """Return what a call gives, and what it has written."""
    return f(*args, out=out, **kwargs), out


def method(name: str) -> Callable[..., Any]:
    """Return a function that calls a method of its first argument."""
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def public(prefix: str, module: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is public and can be called in a module, with its name."""
    for name, fn in vars(module).items():
        if not name.startswith("_") and callable(fn) and not isinstance(fn, type) and fn.__hash__ is not None:
            yield f"{prefix}.{name}", fn


def is_known(fn: Any) -> bool:
    """True for what tapegrad has a meaning for."""
    return fn in DISPATCH and type(DISPATCH[fn]) is not Refusal


def prefixed(**names: str) -> frozenset[str]:
    """Return dotted names: of each prefix its own; `_` in a prefix is a dot."""
    return frozenset(f"{prefix.replace('_', '.')}.{name}" for prefix, text in names.items() for name in text.split())


# -- NumPy

ARRAYS: dict[str, Callable[[Draw], Any]] = {
    "float64": lambda r: r.normal(size=(3, 3)),
    "float32": lambda r: r.normal(size=(3, 3)).astype(np.float32),
    "float16": lambda r: r.normal(size=(3, 3)).astype(np.float16),
    "complex": lambda r: r.normal(size=(3, 3)) + 1j * r.normal(size=(3, 3)),
    "int64": lambda r: r.integers(-3, 5, size=(3, 3)),
    "bool": lambda r: r.random((3, 3)) < 0.5,
    "vector": lambda r: r.normal(size=4),
    "one element": lambda r: r.normal(size=1),
    "no element": lambda r: np.zeros((0, 3)),
    "no axes": lambda r: np.array(r.normal()),
    "three axes": lambda r: r.normal(size=(2, 3, 3)),
    "in columns": lambda r: np.asfortranarray(r.normal(size=(3, 3))),
    "with gaps": lambda r: r.normal(size=(3, 6))[::-1, ::2],
    "ties": lambda r: r.integers(0, 3, size=(3, 3)).astype(float),
    "some nan": lambda r: np.where(r.random((3, 3)) < 0.3, np.nan, r.normal(size=(3, 3))),
    "extremes": lambda r: r.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], size=(3, 3)),
    "positive definite": lambda r: np.cov(r.normal(size=(3, 9))) + np.eye(3),
    "np.float64": lambda r: np.float64(r.normal()),
    "np.float32": lambda r: np.float32(r.normal()),
    "np.int64": lambda r: np.int64(r.integers(-3, 5)),
    "a float": lambda r: float(r.normal()),
    "an int": lambda r: int(r.integers(-3, 5)),
    "True or False": lambda r: bool(r.random() < 0.5),
    "a complex number": lambda r: complex(r.normal(), r.normal()),
    "a list": lambda r: r.normal(size=3).tolist(),
    "a list of lists": lambda r: r.normal(size=(2, 2)).tolist(),
}


@functools.cache
def numpy() -> Namespace:
    """Return NumPy's functions that tapegrad has a meaning for, and the methods of arrays."""
    functions = {name: fn for prefix, module in (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft))
                 for name, fn in public(prefix, module) if is_known(fn)}
    functions |= {f"x.{name}": method(name) for name, fn in vars(np.ndarray).items() if callable(fn) and not name.startswith("_") and fn in DISPATCH}
    return Namespace(functions, ARRAYS, forms(
        "f(x)", "f(x, y)", "f(x, x)", "f(x, y, x)", "f(np.asarray(x) > 0, x, y)", "f([x, y])", "f((x, y), 0)", "f(2.0, x)", "f(x, axis=0)", "f(x, axis=-1)",
        "f(x, keepdims=True)", "f(x, axis=0, keepdims=True)", "f(x, dtype=np.float32)", "f(x, where=np.asarray(x) > 0, initial=1.0)",
        "into(f, x, out=np.zeros((3, 3)))", "into(f, x, out=np.zeros(3))", "f(x, np.array([[0, 1], [1, 0]]), axis=0)", "f(x, [0, 1])", "f(x, (1, 0))",
        "f(x, [0.3, 0.6], axis=-1)", "f(x, 1)", "f(x, 2.0)", "f(x, 3)", "f(x, 0.5)", "f(x, 0, 1)", "f(x, -1, 1)"),
        open=prefixed(np="empty_like", x="resize"),
        unordered=prefixed(np="argsort argpartition partition", x="argsort argpartition partition", np_linalg="eig eigh qr svd"))


# -- SciPy

DISTRIBUTIONS = ("norm expon gamma beta t chi2 f uniform laplace logistic cauchy lognorm weibull_min pareto rayleigh gumbel_r genextreme genpareto "
                 "halfnorm invgamma skewnorm truncnorm triang powerlaw nakagami poisson binom nbinom geom bernoulli hypergeom")
METHODS = "pdf logpdf cdf logcdf sf logsf ppf isf pmf logpmf"
SLOW = (  # or of chance, or with a crash of its own
    "bootstrap permutation_test monte_carlo_test power goodness_of_fit fit dunnett ecdf make_distribution rvs random show_config test "
        "distance_transform_cdt quantile_test somersd barnard_exact boschloo_exact poisson_means_test tukey_hsd false_discovery_control")


@functools.cache
def scipy() -> Namespace:
    """Return SciPy's functions of arrays, and the methods of its distributions."""
    functions: dict[str, Callable[..., Any]] = {}
    for name in ["special", "linalg", "signal", "ndimage", "fft", "stats", "spatial.distance", "integrate", "interpolate"]:
        functions |= public(name, importlib.import_module(f"scipy.{name}"))
    register_imported()
    functions = {name: fn for name, fn in functions.items() if name.rpartition(".")[2] not in SLOW.split() and type(DISPATCH.get(fn)) is not Refusal
                 and type(fn).__module__.partition(".")[0] != "scipy"}
    stats = importlib.import_module("scipy.stats")
    functions |= {f"stats.{dist}.{name}": getattr(getattr(stats, dist), name) for dist in DISTRIBUTIONS.split() for name in METHODS.split()
                  if hasattr(getattr(stats, dist), name)}
    kinds = ARRAYS | {
        "positive": lambda r: r.gamma(2.0, size=(3, 3)), "between 0 and 1": lambda r: r.random((3, 3)), "long": lambda r: r.normal(size=40),
        "positive float": lambda r: float(r.gamma(2.0)), "counts": lambda r: r.integers(0, 4, size=4), "whole": lambda r: r.integers(-2, 4, size=(3, 3)).astype(float),
        "positive, single": lambda r: r.gamma(2.0, size=4).astype(np.float32), "symmetric": lambda r: (lambda a: a + a.T)(r.normal(size=(3, 3)))}
    return Namespace(functions, kinds, forms(
        "f(x)", "f(x, y)", "f(y, x)", "f(x, x)", "f(x, y, x)", "f(x, y, 0.5)", "f(x, y, x, y)", "f(2, x)", "f(1.5, x)", "f(0.5, 1.5, x)", "f(x, 0.5, y)", "f(0.5, 1.2, 2.5, x)",
        "f([x, y])", "f(x, axis=0)", "f(x, axis=-1)", "f(x, axis=None)", "f(x, keepdims=True)", "f(x, axis=0, keepdims=True)", "f(x, y, axis=0)", "f(x, 1)", "f(x, 2)",
        "f(x, 3)", "f(x, 1.5)", "f(x, 0.5)", "f(x, 1.5, 0.5)", "f(x, 2.0, 1.5, 0.5)", "f(x, 2.0, 3.0, 0.5, 1.5)", "f(x, loc=y, scale=2.0)", "f(x, y, loc=0.5)",
        "f(x, 2, axis=0)", "f(x, 5)", "f(x, 2, 0)", "f(x, (2, 2))", "f(x, mode='wrap')", "f(x, y, mode='same')", "f(x, y, 'valid')", "f(x, 1.5, mode='nearest')",
        "f(x, 2, mode='constant', cval=1.5)", "into(f, x, out=np.zeros((3, 3)))", "into(f, x, y, out=np.zeros((3, 3)))", "f(x, b=y)", "f(x, lower=True)", "f(x, y, lower=True)",
        "f(x, norm='ortho')", "f(x, n=5)", "f(x, type=3)", "f(x, dx=0.5)", "f(y, x=x)", "f(x, initial=0)", "f(x, nan_policy='omit')", "f(x, ddof=1)", "f(x, w=y)",
        "f([0.5, 0.25], [1.0, 0.2], x)", "f([0.5, 0.25, 0.1], x)", "f(x, [0.25, 0.5, 0.25])", "f(x, output=np.float32)", "f(x, 1, output=np.zeros((3, 3)))",
        "f(x, overwrite_x=True)", "f(x, overwrite_a=True)", "f(x, check_finite=False)", "f(x, 'euclidean')", "f(x, y, 'cosine')", "f(x, y, 3)"),
        open=frozenset(), unordered=prefixed(linalg="eig eigh qr svd schur eigvals ldl hessenberg rq null_space orth qz ordqz cdf2rdf lu lu_factor"))


# -- torch

UNFIT = ("compile load save seed set_ get_ is_ from_ cuda mps cudnn mkldnn xpu parse import vmap cond fork wait jit quantize fake_quant fbgemm miopen "
         "register share_memory backward storage data_ptr tolist numpy requires_grad element_size sparse _coo csr csc bsr bsc names rename "
         "align_ refine as_tensor asarray result_type can_cast typename record print_options dlpack version apply_ map_ map2_ boolean_dispatch has_torch "
         "assert autocast flash scaled_grouped grouped_mm new_ hook reinforce retain hspmm sspaddmm smm pstr initial_ threads deterministic nested enable "
         "merge_type prepare_multiprocess unify sym_ use_ pin_memory ipu hpu mtia vulkan coalesce empty resize dual")


OPERATORS = ("add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge neg pos abs invert getitem "
             "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift")


@functools.cache
def torch() -> Namespace:
    """Return torch's functions of tensors, and the methods of tensors."""
    torch = importlib.import_module("torch")
    register_imported()
    found = dict(pair for prefix, module in (("torch", torch), ("torch.linalg", torch.linalg), ("torch.fft", torch.fft), ("torch.special", torch.special),
                                             ("F", torch.nn.functional)) for pair in public(prefix, module))
    found |= {f"Tensor.{name}": method(name) for name in dir(torch.Tensor) if not name.startswith("_") and callable(getattr(torch.Tensor, name))}
    found |= {f"operator.{name}": getattr(operator, name) for name in OPERATORS.split()}
    functions = {name: fn for name, fn in found.items() if not any(word in name for word in UNFIT.split())}

    def of(make: Callable[[Draw], Any], dtype: Any = torch.float64) -> Callable[[Draw], Any]:
        return lambda r: torch.as_tensor(make(r)).to(dtype)
    kinds: dict[str, Callable[[Draw], Any]] = {
        "float64": of(lambda r: r.normal(size=(3, 3))), "float32": of(lambda r: r.normal(size=(3, 3)), torch.float32),
        "float16": of(lambda r: r.normal(size=(3, 3)), torch.float16), "bfloat16": of(lambda r: r.normal(size=(3, 3)), torch.bfloat16),
        "complex": of(lambda r: r.normal(size=(3, 3)) + 1j * r.normal(size=(3, 3)), torch.complex128),
        "complex64": of(lambda r: r.normal(size=(3, 3)) + 1j * r.normal(size=(3, 3)), torch.complex64),
        "int64": of(lambda r: r.integers(-3, 5, size=(3, 3)), torch.int64), "int32": of(lambda r: r.integers(-3, 5, size=(3, 3)), torch.int32),
        "uint8": of(lambda r: r.integers(0, 9, size=(3, 3)), torch.uint8), "bool": of(lambda r: r.random((3, 3)) < 0.5, torch.bool),
        "vector": of(lambda r: r.normal(size=3)), "vector of float32": of(lambda r: r.normal(size=3), torch.float32), "indices": of(lambda r: r.integers(0, 3, size=3), torch.int64),
        "one element": of(lambda r: r.normal(size=1)), "no element": of(lambda r: np.zeros((0, 3))), "no axes": of(lambda r: r.normal()),
        "no axes, float32": of(lambda r: r.normal(), torch.float32), "no axes, int64": of(lambda r: r.integers(-3, 5), torch.int64), "three axes": of(lambda r: r.normal(size=(2, 3, 3))),
        "in columns": lambda r: of(lambda r: r.normal(size=(3, 3)))(r).t(), "with gaps": lambda r: of(lambda r: r.normal(size=(3, 6)))(r)[:, ::2],
        "expanded": lambda r: of(lambda r: r.normal(size=(1, 3)))(r).expand(3, 3), "ties": of(lambda r: r.integers(0, 3, size=(3, 3))),
        "extremes": of(lambda r: r.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], size=(3, 3))), "some nan": of(lambda r: np.where(r.random((3, 3)) < 0.3, np.nan, r.normal(size=(3, 3)))),
        "positive definite": of(lambda r: np.cov(r.normal(size=(3, 9))) + np.eye(3)), "between 0 and 1": of(lambda r: r.random((3, 3))),
        "a float": lambda r: float(r.normal()), "an int": lambda r: int(r.integers(-3, 5)), "True or False": lambda r: bool(r.random() < 0.5), "a complex number": lambda r: complex(r.normal(), r.normal())}
    return Namespace(functions, kinds, forms(
        "f(x)", "f(x, y)", "f(x, x)", "f(x, y, x)", "f(x, y, y)", "f(x, x > 0)", "f(x > 0, x, y)", "f(x, x > 0, y)", "f(x, x > 0, 2)", "f([x, y])", "f((x, y), 0)", "f([x, y], dim=-1)", "f(2.0, x)", "f(2, x)", "f(True, x)", "f(1j, x)",
        "f(x, 0)", "f(x, 1)", "f(x, -1)", "f(x, 2)", "f(x, 2.0)", "f(x, 0.5)", "f(x, 2, 1)", "f(x, 0, 1)", "f(x, -1, 1)", "f(x, -0.5, 0.5)", "f(x, dim=0)", "f(x, dim=-1, keepdim=True)", "f(x, dim=(0, 1))",
        "f(x, (0, 1))", "f(x, (1, 0))", "f(x, [3, 3])", "f(x, (1, 1))", "f(x, keepdim=True)", "f(x, y, alpha=2)", "f(x, y, x, alpha=2, beta=0.5)", "f(x, y, y, value=0.5)", "f(x, dtype=torch.float32)", "f(x, torch.float32)",
        "f(x, y, rounding_mode='floor')", "f(x, min=0)", "f(x, max=y)", "f(x, 0, torch.tensor([0, 2]))", "f(x, 0, torch.tensor([0, 2]), 1.5)", "f(x, 0, torch.tensor([[0, 1, 2], [2, 1, 0], [0, 0, 1]]))",
        "f(x, 0, torch.tensor([[0, 1, 2], [2, 1, 0], [0, 0, 1]]), y)", "f(x, 1, torch.tensor([[0, 1, 2], [2, 1, 0], [0, 0, 1]]), y)", "f(x, 0, torch.tensor([0, 1, 2]), y)", "f(x, torch.tensor([0, 2]))",
        "f(x, torch.tensor([[0, 1]]), y)", "f(x, 1, 0, 2)", "f(x, y, 0)", "f(x, y, 1)", "f(x, y, dim=0)", "f(x, y, reduction='sum')", "f(x, y, reduction='none')", "f(x, descending=True)",
        "into(f, x, out=torch.zeros(3, 3))", "into(f, x, y, out=torch.zeros(3, 3))", "into(f, x, y, out=torch.zeros(3, 3, dtype=torch.float64))", "into(f, x, 0, out=torch.zeros(3, dtype=torch.float64))",
        "into(f, x, y, out=torch.zeros(2, 3, 3))", "f(x, other=y)", "f(input=x, dim=0)", "f(x, axis=0)", "f(x, x, x, x)", "f(x, (slice(None), 0))", "f(x, n=4)", "f(x, 'ij,ij->i')", "f('ij,jk->ik', x, y)", "f('ij->j', x)",
        "f(x, x.shape[-1:])", "f(x, inplace=True)", "f(x, 0.3, 0.6)", "f(x, 1, y)", "f(x, y, 2.0)", "f(x[None], y[None])", "f(x[None, None], 2)", "f(x[None, None], (1, 1))", "f(x[None, None], y[None, None])"),
        open=frozenset(), unordered=prefixed(torch_linalg="eig eigh qr svd lu ldl_factor_ex", torch="svd qr geqrf lu topk argsort", Tensor="svd qr geqrf lu topk argsort"))


NAMESPACES: dict[str, Callable[[], Namespace]] = {"numpy": numpy, "scipy": scipy, "torch": torch}
