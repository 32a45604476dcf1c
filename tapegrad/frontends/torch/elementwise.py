"""torch's elementwise functions: arithmetic, powers, exponentials, special functions, rounding, comparison, selection,
dtypes.

Each line of a table has one op and torch's names for it. The arguments are first cast to the dtype of torch's
promotion. If the op does not compute the same for its kind (`kinds`), the call is recorded whole, or raises torch's
error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.frontends.common import static
from tapegrad.frontends.torch.common import (
    brought,
    cast,
    is_number,
    kind_of,
    one_dtype_of,
    related,
    result_type,
    settled,
    tensors_among,
    tensors_only,
)
from tapegrad.frontends.torch.facts import asked
from tapegrad.frontends.torch.generic import generic, whole
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Op, Traced


def spellings(names: str) -> list[str]:
    """Return the dotted names of functions and methods: `add` stands for `torch.add` and `Tensor.add`, while dotted
    names such as `special.erf` and `Tensor.t` stand for themselves.
    """
    return [spelled for name in names.split() for spelled in ([name] if "." in name else [name, f"Tensor.{name}"])]


def unary(op: Callable[..., Any], names: str, kinds: str = "fc", floating: bool = True) -> None:
    """Register an op for functions of one tensor; `floating` ones convert integers to floating-point numbers."""
    spelled = spellings(names)

    def meaning(input: Array) -> Any:
        xs = settled((input,), kinds, floating) if tensors_only(input) else None
        return whole(spelled[0], input) if xs is None else op(*xs)
    torch_means(*spelled)(meaning)


def binary(op: Callable[..., Any], names: str, kinds: str = "if", floating: bool = False,
           numbers: bool = True) -> Callable[..., Any]:
    """Register an op for functions of two arguments; both are tensors, or with `numbers` one may be a number."""
    spelled = spellings(names)

    def meaning(input: Array, other: Any) -> Any:
        if other is None or type(other) is str:
            return NotImplemented  # x == None
        xs = settled((input, other), kinds, floating) if numbers or tensors_only(input, other) else None
        return whole(spelled[0], input, other) if xs is None else op(*xs)
    return torch_means(*spelled)(meaning)


def reflected(name: str, of: str) -> None:
    """Register a reflected operator of Python as torch's function with its arguments swapped."""
    torch_means(f"Tensor.{name}")(lambda self, other: MEANINGS[of](other, self))


MEANINGS: dict[str, Callable[..., Any]] = {}


def also(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Store the decorated implementation under a name, for a reflected operator."""
    def decorate(meaning: Callable[..., Any]) -> Callable[..., Any]:
        MEANINGS[name] = meaning
        return meaning
    return decorate


def by_numpy(name: str, ufunc: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Register the decorated implementation of an operator, for a tensor and an array NumPy's ufunc: torch does not
    take an array there.
    """
    def decorate(meaning: Any) -> Any:
        torch_means(name)(lambda self, other: (ufunc if isinstance(plain(other), np.ndarray) else meaning)(self, other))
        return meaning
    return decorate


# -- arithmetic


def _sum(op: Op, name: str, kinds: str) -> Callable[..., Any]:
    """Return the implementation of `input + alpha * other`, or of the difference."""
    def meaning(input: Array, other: Array, *, alpha: Any = 1) -> Any:
        plainly = type(alpha) is int and alpha == 1
        xs = settled((input, other), kinds if plainly else "fc")
        if xs is None:
            return whole(name, input, other, alpha=alpha)
        return op(xs[0], xs[1] if plainly else ops.multiply(xs[1], brought(alpha, result_type(*xs))))
    return meaning


torch_means("add", "Tensor.add", "Tensor.__add__", "Tensor.__radd__")(_sum(ops.add, "add", "bifc"))
also("sub")(torch_means("sub", "subtract", "Tensor.sub", "Tensor.subtract",
                        "Tensor.__sub__")(_sum(ops.subtract, "sub", "ifc")))
torch_means("rsub", "Tensor.rsub")(lambda input, other, *, alpha=1: MEANINGS["sub"](other, input, alpha=alpha))
reflected("__rsub__", "sub")
binary(ops.multiply, "mul multiply Tensor.__mul__ Tensor.__rmul__", "bifc")


@also("div")
@torch_means("div", "divide", "true_divide", "Tensor.div", "Tensor.divide", "Tensor.true_divide", "Tensor.__div__",
             "Tensor.__truediv__")
def div(input: Array, other: Array, *, rounding_mode: str | None = None) -> Any:
    xs = settled((input, other), "fc" if rounding_mode is None else "f", floating=rounding_mode is None)
    if xs is None or rounding_mode not in (None, "floor", "trunc"):
        return whole("div", input, other, rounding_mode=rounding_mode)
    return (ops.floor_divide(*xs) if rounding_mode == "floor" else ops.trunc(ops.divide(*xs)) if rounding_mode
            else ops.divide(*xs))


torch_means("Tensor.__rdiv__", "Tensor.__rtruediv__")(
    lambda self, other: np.multiply(self.reciprocal(), other) if isinstance(plain(other), np.ndarray)
    else div(other, self))


def _whole_numbers(op: Op, name: str, *names: str) -> Callable[..., Any]:
    """Register a division of real numbers; torch raises if an integer is divided by 0, so integers stay torch's."""
    @also(name)
    @torch_means(name, f"Tensor.{name}", *names)
    def meaning(input: Array, other: Array) -> Any:
        xs = settled((input, other), "f")
        return whole(name, input, other) if xs is None else op(*xs)
    return meaning


by_numpy("Tensor.__floordiv__", np.floor_divide)(_whole_numbers(ops.floor_divide, "floor_divide"))
_whole_numbers(ops.remainder, "remainder", "Tensor.__mod__")
_whole_numbers(ops.fmod, "fmod")
reflected("__rfloordiv__", "floor_divide")
reflected("__rmod__", "remainder")
unary(ops.negative, "neg negative Tensor.__neg__", "ifc", floating=False)
unary(lambda x: x, "positive Tensor.__pos__", "ifc", floating=False)  # the tensor itself
unary(ops.abs, "abs absolute Tensor.__abs__", "ifc", floating=False)
unary(ops.reciprocal, "reciprocal")
binary(ops.gcd, "gcd", "i", numbers=False)
binary(ops.lcm, "lcm", "i", numbers=False)


@torch_means("addcmul", "Tensor.addcmul")
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    xs = settled((input, tensor1, tensor2), "fc")
    if xs is None:
        return whole("addcmul", input, tensor1, tensor2, value=value)
    return ops.add(xs[0], _scaled(ops.multiply(xs[1], xs[2]), value))


@torch_means("addcdiv", "Tensor.addcdiv")
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    xs = settled((input, tensor1, tensor2), "fc")
    if xs is None or not _has_fractions(tensor1, tensor2):
        return whole("addcdiv", input, tensor1, tensor2, value=value)
    return ops.add(xs[0], _scaled(ops.divide(xs[1], xs[2]), value))


def _has_fractions(*xs: Any) -> bool:
    return kind_of(result_type(*xs)) in "fc"


def _scaled(x: Any, factor: Any) -> Any:
    return x if type(factor) in (int, float) and factor == 1 else ops.multiply(x, brought(factor, plain(x).dtype))


@torch_means("lerp", "Tensor.lerp")
def lerp(input: Array, end: Any, weight: Array) -> Any:
    if (not one_dtype_of(*tensors_among((input, end, weight))) or kind_of(plain(input).dtype) not in "fc"
        or isinstance(plain(weight), complex)):
        return whole("lerp", input, end, weight)
    part, way = brought(weight, plain(input).dtype), ops.subtract(end, input)
    below = ops.add(input, ops.multiply(way, part))
    above = ops.subtract(end, ops.multiply(way, 1 - part))  # from the nearer end, so that both ends are exact
    return (ops.where(ops.less(part, 0.5), below, above) if isinstance(part, Traced) or is_tensor(part) else below
            if part < 0.5 else above)


# -- powers, exponentials, logarithms


@also("pow")
@by_numpy("Tensor.__pow__", np.power)
@torch_means("pow", "Tensor.pow")
def pow(input: Array, exponent: Any) -> Any:
    xs = settled((input, exponent), "ifc")
    return whole("pow", input, exponent) if xs is None else ops.pow(*xs)


reflected("__rpow__", "pow")


@torch_means("float_power", "Tensor.float_power")
def float_power(input: Array, exponent: Any) -> Any:
    wide = torch.complex128 if result_type(input, exponent).is_complex else torch.float64
    return ops.pow(brought(input, wide), brought(exponent, wide))


@torch_means("ldexp", "Tensor.ldexp")
def ldexp(input: Array, other: Array) -> Any:
    xs = settled((input, pow(2.0, other)))
    return whole("ldexp", input, other) if xs is None else ops.multiply(*xs)


for _op, _names in {
    ops.sqrt: "sqrt", ops.exp: "exp", ops.exp2: "exp2 special.exp2", ops.expm1: "expm1 special.expm1",
    ops.log: "log", ops.log2: "log2", ops.log10: "log10", ops.log1p: "log1p special.log1p",
    ops.sin: "sin", ops.cos: "cos", ops.tan: "tan", ops.asin: "asin arcsin", ops.acos: "acos arccos",
    ops.atan: "atan arctan",
    ops.sinh: "sinh", ops.cosh: "cosh", ops.tanh: "tanh", ops.asinh: "asinh arcsinh", ops.acosh: "acosh arccosh",
    ops.atanh: "atanh arctanh",
}.items():
    unary(_op, _names)
unary(ops.square, "square", "ifc", floating=False)
unary(lambda x: ops.reciprocal(ops.sqrt(x)), "rsqrt")
binary(ops.logaddexp, "logaddexp", "f", numbers=False)
binary(ops.logaddexp2, "logaddexp2", "f", numbers=False)
binary(ops.atan2, "atan2 arctan2", "f", floating=True, numbers=False)
binary(ops.hypot, "hypot", "f", numbers=False)

# -- functions of real numbers

for _op, _names in {
    ops.expit: "sigmoid special.expit", ops.sinc: "sinc special.sinc", ops.deg2rad: "deg2rad", ops.rad2deg: "rad2deg",
    ops.gammaln: "lgamma special.gammaln", ops.digamma: "digamma special.digamma special.psi",
    ops.erf: "erf special.erf", ops.erfc: "erfc special.erfc", ops.erfinv: "erfinv special.erfinv",
    ops.erfcx: "special.erfcx",
    ops.ndtr: "special.ndtr", ops.ndtri: "special.ndtri", ops.log_ndtr: "special.log_ndtr", ops.entr: "special.entr",
    ops.i0: "i0 special.i0", ops.i1: "special.i1", ops.i0e: "special.i0e", ops.i1e: "special.i1e",
    ops.j0: "special.bessel_j0", ops.j1: "special.bessel_j1", ops.y0: "special.bessel_y0", ops.y1: "special.bessel_y1",
    ops.k0: "special.modified_bessel_k0", ops.k1: "special.modified_bessel_k1",
    ops.k0e: "special.scaled_modified_bessel_k0", ops.k1e: "special.scaled_modified_bessel_k1",
}.items():
    unary(_op, _names, "f")
unary(ops.i0, "special.modified_bessel_i0", "f")
unary(ops.i1, "special.modified_bessel_i1", "f")


for _op, _names in {ops.xlogy: "xlogy special.xlogy", ops.xlog1py: "special.xlog1py", ops.zeta: "special.zeta",
                    ops.gammainc: "igamma special.gammainc", ops.gammaincc: "igammac special.gammaincc"}.items():
    binary(_op, _names, "f", floating=True, numbers=False)  # these ops do not let a number give way to a tensor


@torch_means("logit", "Tensor.logit", "special.logit")
def logit(input: Array, eps: Any = None) -> Any:
    xs = settled((input,), "f", floating=True)
    if xs is None or (eps is not None and eps > 0.5):  # torch clamps differently above 0.5
        return whole("logit", input, eps)
    return ops.logit(xs[0] if eps is None else clamp(xs[0], eps, 1 - eps))


@torch_means("polygamma", "special.polygamma")
def polygamma(n: Any, input: Array) -> Any:
    xs = settled((input,), "f", floating=True)
    n = static(n)
    if xs is None or n < 0:
        return whole("polygamma", n, input)
    return brought(ops.polygamma(xs[0], n=n), plain(xs[0]).dtype) if n else ops.digamma(xs[0])


torch_means("Tensor.polygamma")(lambda input, n: polygamma(n, input))

# -- sign, rounding and the parts of a number


def sign(x: Array) -> Any:
    y = ops.sign(x)
    return ops.where(ops.isnan(x), 0.0, y) if kind_of(plain(x).dtype) == "f" else y  # in torch the sign of nan is 0


def _rounded(op: Op, names: str) -> None:
    unary(lambda x: op(x) if kind_of(plain(x).dtype) == "f" else ops.positive(x), names, "if", floating=False)


unary(sign, "sign", "if", floating=False)
unary(lambda x: sign(x) if kind_of(plain(x).dtype) != "c" else ops.sign(x), "sgn", "ifc", floating=False)
unary(ops.signbit, "signbit", "f", floating=False)
_rounded(ops.floor, "floor")
_rounded(ops.ceil, "ceil")
_rounded(ops.trunc, "trunc fix")
unary(lambda x: ops.subtract(x, ops.trunc(x)), "frac", "f", floating=False)


@torch_means("round", "Tensor.round", "special.round")
def round(input: Any, *, decimals: int = 0) -> Any:
    xs, decimals = settled((input,), "f"), static(decimals)
    if xs is None:
        return whole("round", input, **({"decimals": decimals} if decimals else {}))
    return ops.round(xs[0], decimals=decimals) if decimals else ops.rint(xs[0])


# at 0 torch's copysign has derivative 0, as |a| has here
binary(lambda a, b: ops.multiply(ops.abs(a), ops.copysign(1.0, b)), "copysign", "f", floating=True, numbers=False)


@torch_means("heaviside", "Tensor.heaviside")
def heaviside(input: Array, values: Array) -> Any:
    xs = settled((input, values), "f") if one_dtype_of(input, values) else None
    # torch returns 0 for nan
    return whole("heaviside", input, values) if xs is None else ops.where(ops.isnan(input), 0.0, ops.heaviside(*xs))


@torch_means("nan_to_num", "Tensor.nan_to_num")
def nan_to_num(input: Array, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    xs = settled((input,), "f")
    given = {key: value for key, value in {"nan": nan, "posinf": posinf, "neginf": neginf}.items() if value is not None}
    return whole("nan_to_num", input, **given) if xs is None else ops.nan_to_num(xs[0], **given)


@torch_means("conj", "Tensor.conj")
def conj(input: Array) -> Any:
    if kind_of(plain(input).dtype) != "c":
        return input
    return related(input, ops.conjugate(input))


unary(lambda x: ops.conjugate(x) if plain(x).is_complex() else ops.positive(x), "conj_physical", "ifc", floating=False)


@torch_means("resolve_conj", "resolve_neg", "Tensor.resolve_conj", "Tensor.resolve_neg")
def resolved(input: Array) -> Any:
    return input


@torch_means("real", "Tensor.real")
def real(input: Array) -> Any:
    return ops.real(input) if plain(input).is_complex() else input


@torch_means("imag", "Tensor.imag")
def imag(input: Array) -> Any:
    return ops.imag(input) if plain(input).is_complex() else whole("imag", input)


unary(ops.angle, "angle", "c")  # real tensors are recorded whole: torch's angle of -0.0 is 0

# -- comparison, logic and bits

for _op, _names in {ops.equal: "eq Tensor.__eq__", ops.not_equal: "ne not_equal Tensor.__ne__"}.items():
    binary(_op, _names, "bifc")
for _op, _names in {ops.less: "lt less Tensor.__lt__", ops.less_equal: "le less_equal Tensor.__le__",
                    ops.greater: "gt greater Tensor.__gt__",
                    ops.greater_equal: "ge greater_equal Tensor.__ge__"}.items():
    binary(_op, _names, "bif")
for _op in (ops.logical_and, ops.logical_or, ops.logical_xor):
    binary(_op, _op.__name__, "bifc", numbers=False)
unary(ops.logical_not, "logical_not", "bifc", floating=False)
for _op, _name in {ops.bitwise_and: "and", ops.bitwise_or: "or", ops.bitwise_xor: "xor"}.items():
    binary(_op, f"bitwise_{_name} Tensor.__{_name}__ Tensor.__r{_name}__", "bi")
for _op, _name in {ops.bitwise_left_shift: "left", ops.bitwise_right_shift: "right"}.items():
    binary(_op, f"bitwise_{_name}_shift Tensor.__{_name[0]}shift__", "i")
unary(ops.bitwise_invert, "bitwise_not Tensor.__invert__", "bi", floating=False)
for _op in (ops.isnan, ops.isinf, ops.isfinite):
    unary(_op, _op.__name__, "bifc", floating=False)
unary(lambda x: ops.equal(x, math.inf), "isposinf", "f", floating=False)
unary(lambda x: ops.equal(x, -math.inf), "isneginf", "f", floating=False)

# -- selection, with torch's gradients: ties of maximum share it equally, fmax gives all to the first, and clamp passes
# it where the input is within the bounds

maximum = binary(ops.maximum, "maximum", "bif", numbers=False)
minimum = binary(ops.minimum, "minimum", "bif", numbers=False)
binary(lambda a, b: ops.where(ops.logical_or(ops.greater_equal(a, b), ops.isnan(b)), a, b), "fmax", "f", numbers=False)
binary(lambda a, b: ops.where(ops.logical_or(ops.less_equal(a, b), ops.isnan(b)), a, b), "fmin", "f", numbers=False)


@torch_means("clamp", "clip", "Tensor.clamp", "Tensor.clip")
def clamp(input: Array, min: Any = None, max: Any = None) -> Any:
    bounds = [bound for bound in (min, max) if bound is not None]
    xs = settled((input, *bounds), "if")
    if xs is None or not bounds or any(is_number(bound) and plain(bound) != plain(bound) for bound in bounds):
        return whole("clamp", input, min, max)
    if all(type(bound) in (int, float, bool) for bound in xs[1:]) and xs[1] <= xs[-1]:
        known = iter(xs[1:])
        return ops.clamp(xs[0],
                         **{name: next(known) for name, bound in (("low", min), ("high", max)) if bound is not None})
    y, *limits = xs
    if min is not None:
        y = _bounded(ops.less, y, limits[0])
    return y if max is None else _bounded(ops.greater, y, limits[-1])


def _bounded(beyond: Op, x: Array, bound: Any) -> Any:
    past = beyond(x, bound)
    if is_tensor(plain(bound)) and kind_of(plain(bound).dtype) == "f":
        past = ops.logical_or(past, ops.isnan(bound))
    return ops.where(past, bound, x)


torch_means("clamp_min", "Tensor.clamp_min")(lambda input, min: clamp(input, min))
torch_means("clamp_max", "Tensor.clamp_max")(lambda input, max: clamp(input, None, max))


@torch_means("where")
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    if input is None:
        return ops.nonzero(condition)
    xs = settled((input, other), "bifc")
    if xs is None or not tensors_only(condition) or kind_of(plain(condition).dtype) != "b":
        return whole("where", condition, input, other)
    return ops.where(condition, *xs)


torch_means("Tensor.where")(lambda self, condition, other: where(condition, self, other))


@torch_means("masked_fill", "Tensor.masked_fill")
def masked_fill(input: Array, mask: Array, value: Array) -> Any:
    dtype = plain(input).dtype
    if (not tensors_only(mask) or kind_of(plain(mask).dtype) != "b" or result_type(input, value) is not dtype
        or len(shape_of(value))):
        return whole("masked_fill", input, mask, value)
    return ops.where(mask, brought(value, dtype), input)


# -- dtypes and copies: a cast to the same dtype returns the tensor itself


def _cast(dtype: torch.dtype, name: str) -> None:
    torch_means(f"Tensor.{name}")(lambda self, memory_format=None: cast(self, dtype))


for _name in ("float", "double", "half", "bfloat16", "int", "long", "short", "bool", "cfloat", "cdouble"):
    _cast(getattr(torch, _name), _name)
for _name, _dtype in {"byte": torch.uint8, "char": torch.int8}.items():
    _cast(_dtype, _name)


@torch_means("Tensor.type")
def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    if isinstance(dtype, torch.dtype):
        return cast(self, dtype)
    return asked(torch.Tensor.type)(self) if dtype is None else generic(self._tracer, torch.Tensor.type, (self, dtype),
                                                                        {})


@torch_means("Tensor.type_as")
def type_as(self: Any, other: Array) -> Any:
    return to(self, other)


@torch_means("Tensor.to")
def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a tensor in another dtype; a move to another device is recorded whole."""
    here, other, dtype = plain(self), kwargs.get("other"), kwargs.get("dtype")
    device = kwargs.get("device")
    for arg in args:
        if isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, (str, torch.device)):
            device = arg
        elif is_tensor(plain(arg)):
            other = arg
    if other is not None:
        dtype, device = plain(other).dtype, plain(other).device
    if device is not None and _elsewhere(torch.device(device), here.device):
        return generic(self._tracer, torch.Tensor.to, (self, *args), kwargs)
    y = self if dtype is None else cast(self, dtype)
    places = 2 if dtype is not None and device is not None and other is None else 1
    copied = kwargs.get("copy", args[places + 1] if len(args) > places + 1 else False)
    return ops.copy(y) if copied is True and y is self else y


def _elsewhere(wanted: torch.device, here: torch.device) -> bool:
    return wanted.type != here.type or (wanted.index is not None and wanted.index != here.index)


@torch_means("clone", "Tensor.clone")
def clone(input: Array, *, memory_format: Any = None) -> Any:
    if memory_format in (None, torch.preserve_format) or (memory_format is torch.contiguous_format
                                                          and plain(input).is_contiguous()):
        return ops.copy(input)
    return (ops.copy(input, order="C") if memory_format is torch.contiguous_format
            else whole("clone", input, memory_format=memory_format))


