"""kinds: whether a tape may be replayed on numbers of another kind (int for float, tensors for arrays) and still
compute what the program would.

A program rarely depends on the kind of a number: `a / (a + b * b)` is the same line for ints and floats, and so is its
tape. But values that a composite derived from a float (a dtype, a cast, an integer that was no axis) are fixed on the
tape. Where that is possible, numbers of another kind are refused. For numbers of a number system, such as Fraction, the
tape is rewritten: float literals of the program become numbers of that system.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import GuardError
from tapegrad.numbers.cotangents import conform
from tapegrad.numbers.formatting import plain, type_name
from tapegrad.numbers.systems import kind_within, system, system_within
from tapegrad.numbers.tensor_dtypes import numpy_dtype
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import convert
from tapegrad.rules.op import Op
from tapegrad.rules.user import rrule
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Call, Constant, Operation, Tape, copy_op

RANKS = "biufc"


def check_kinds(tape: Tape, given: list[Any]) -> None:
    """Raise GuardError if arguments of other kinds than recorded might make the tape differ from the program."""
    others = []
    for x, new in zip(tape.inputs[1:], given):
        if (is_array(x.val) and is_number(new)) or (is_number(x.val) and is_array(new)):
            # `x += 1` and many other operations behave differently without leaving a guard
            raise other(tape, x, kind_of(x.val), kind_of(new))
        known = system_within(new)
        if known is not system_within(x.val) and (
                not valid_in_any_system(tape) or (known and known.partial and is_array(new))):
            raise other(tape, x, _kind_name(x.val), _kind_name(new),
                        ": floats and conversions on the tape would round it")
        if type(new) is not type(x.val) or is_tensor(new):
            others.append((x, new))
    if others:
        check_numbers(tape, [(x, new) for x, new in others if letter(x.val) and letter(new) not in ("", letter(x.val))])
        check_tensors(tape, [(x, new) for x, new in others if is_tensor(plain(x.val))])


def _kind_name(x: Any) -> str:
    kind = kind_within(plain(x))
    return type_name(x) + ("" if kind is None else f" of {kind.__name__}")


def in_system(tape: Tape, given: list[Any]) -> tuple[Tape, list[Any]]:
    """Return the tape and the arguments converted to the arguments' number system, if the tape was recorded from
    floats.

    A float on the tape or among the arguments becomes the number that its shortest decimal spelling denotes, as 0.1
    becomes Fraction(1, 10). Tapes with arrays or loops are unchanged, and so are tapes that are valid for any number
    system.
    """
    pairs = zip(tape.inputs[1:], given)
    found = next((new for x, new in pairs if type(x.val) is float and system(new) is not None), None)
    known = system(found)
    if known is None or any(map(carries, tape.ops)) or _has_array(tape, given) or (
            valid_in_any_system(tape) and not any(isinstance(plain(x), float) for x in given)):
        return tape, given
    kind = type(plain(found))

    def number(x: Any) -> Any:
        if type(x) is tuple:
            return tuple(map(number, x))
        if not isinstance(x, (float, np.floating)):
            return x
        try:
            return known.literal(float(x), kind)
        except (OverflowError, ValueError):  # Fraction has no inf or nan, but compares with them
            if np.isfinite(x):
                raise
            return x
    new, at = tape.blank(), dict[Operation, Operation]()
    for op in tape.ops:
        made = copy_op(op, lambda arg: at[arg] if isinstance(arg, Operation) else number(arg))
        made.val = number(op.val)
        if isinstance(made, Call) and made.fn is convert and made.kwargs["to"] is float:
            made.kwargs = {"to": kind}
        at[op] = new.push(made)
    new.result = at[tape.result]
    for x, value in zip(tape.inputs[1:], given):
        if system(value) not in (None, known):
            raise GuardError(f"{x.label or x.name} is {type_name(value)}, but another argument is {type_name(found)}: "
                             "a tape computes in one number system", None, "pass arguments of one number type")
    return new, [known.convert(value, kind) if type(value) is int and type(x.val) is float else number(value)
                 for x, value in zip(tape.inputs[1:], given)]


def _has_array(tape: Tape, given: list[Any]) -> bool:
    return any(map(is_array, given)) or any(is_array(x) for op in tape.ops for x in (op.val, *op.args)
                                            if not isinstance(x, Operation))


def other(tape: Tape, x: Any, was: str, now: str, why: str = "", where: Any = None) -> GuardError:
    """Return the error for an argument of another kind."""
    return GuardError(f"{x.label or x.name} was {was} when {tape.name} was recorded, and is now {now}{why}", where,
                      "trace the function again with these arguments")


def check_numbers(tape: Tape, changed: list[tuple[Operation, Any]]) -> None:
    """Raise GuardError if a number of another kind is used in anything but arithmetic."""
    if not changed:
        return
    reached = {x for x, _ in changed}
    highest = max(RANKS.index(letter(new)) for _, new in changed)
    for op in tape.ops:
        if type(op) is not Call or not any(arg in reached for arg in op.args if isinstance(arg, Operation)):
            continue
        if not (type(op.fn) is Op and (op.fn.pythonic or op.fn.is_ufunc) and not op.kwargs):
            raise other(tape, *described(changed), f", for which {op.fn.__name__} may give another result", op.where)
        if settles(op, reached, highest):
            continue
        if is_tensor(op.val):
            raise other(tape, *described(changed), ": torch may give another result for it", op.where)
        reached.add(op)


def described(changed: list[tuple[Operation, Any]]) -> tuple[Operation, str, str]:
    """Return the first argument of another kind, with its old and new type names."""
    x, new = changed[0]
    return x, type_name(x.val), type_name(new)


def settles(op: Call, reached: set[Operation], highest: int) -> bool:
    """True if the other operands decide the result's type, whatever the kind of the changed numbers."""
    rest = [arg for arg in op.args if not (isinstance(arg, Operation) and arg in reached)]
    values = [arg.val if isinstance(arg, Operation) else arg for arg in rest]
    if is_tensor(op.val):  # Python numbers are weak beside tensors of their kind or a higher one
        return any(is_tensor(x) and letter(x) == letter(op.val)
                   and RANKS.index(letter(x)) >= max(highest, RANKS.index("f")) for x in values)
    dtypes = [x.dtype for x in values if isinstance(x, (np.ndarray, np.generic))]
    if not dtypes or type(op.val) not in (np.ndarray, *{dtype.type for dtype in dtypes}):
        return False
    return bool(np.result_type(*dtypes) == op.val.dtype and RANKS.index(op.val.dtype.kind) >= highest)


def check_tensors(tape: Tape, given: list[tuple[Operation, Any]]) -> None:
    """Raise GuardError for tensors of another kind of number than recorded, or of a new precision that is not the same
    for all.

    torch's promotion among several dtypes was fixed when the tape was recorded.
    """
    known: dict[Any, Any] = {}
    for x, new in given:
        old, now = (None if is_number(part) else numpy_dtype(plain(part).dtype) for part in (x.val, new))
        if old is None or now is None or now.kind != old.kind or known.setdefault(old, now) != now:
            raise other(tape, x, f"a tensor of {old}", type_name(new) if now is None else f"one of {now}",
                        ": torch may give another result for it")
    fixed = {numpy_dtype(op.val.dtype) for op in tape.ops if type(op) is Constant and is_tensor(op.val)}
    if any(old != now and old in fixed for old, now in known.items()):
        raise GuardError(f"{tape.name} contains constant tensors of the precision that it was recorded with",
                         None, "trace the function again with these arguments")


def letter(x: Any) -> str:
    """Return the dtype letter of a number or of a tensor's numbers; "" for other values."""
    x = plain(x)
    if type(x) in (bool, int, float, complex) or isinstance(x, np.generic):
        return np.asarray(x).dtype.kind if type(x) is not int else "i"
    return str(numpy_dtype(x.dtype).kind) if is_tensor(x) else ""


def valid_in_any_system(tape: Tape) -> bool:
    """True for a tape valid for any number system: no constant is a float or a number of one system."""
    constants = [arg for op in tape.ops for arg in (*op.args, *([op.val] if type(op) is Constant else []))]
    fixed = any(isinstance(plain(x), (float, complex, np.generic)) or system(x) is not None for x in constants
                if not isinstance(x, Operation))
    return not fixed and not any(op.fn in (convert, rrule, conform) for op in tape.ops)


def is_array(x: Any) -> bool:
    """True for an array or a proxy of one, and for a tensor with axes; a 0-d tensor may stand for a number."""
    x = plain(x)
    return isinstance(x, np.ndarray) or (is_tensor(x) and x.ndim > 0)


def is_number(x: Any) -> bool:
    """True for a number (Python's, NumPy's or of a number system) or a proxy of one."""
    return isinstance(plain(x), (int, float, complex, np.generic)) or system(x) is not None


def kind_of(x: Any) -> str:
    """Describe an input as a number or an array."""
    return "a number" if is_number(x) else "an array"
