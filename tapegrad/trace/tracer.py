"""tracer: runs a function once on proxies and records a tape."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

import tapegrad.trace.effects
import tapegrad.trace.operators  # noqa: F401  (gives proxies theirs)
from tapegrad.errors import CallError, TapeError, fold, user_location
from tapegrad.numbers.formatting import PYTHON, brief
from tapegrad.numbers.systems import INTERPOSED, system_within
from tapegrad.numbers.tensors import ORDINARY, detached, duplicate, duplicates
from tapegrad.progress import Work
from tapegrad.rules.activity import differentiated
from tapegrad.rules.op import PROXIES, Traced
from tapegrad.tape.tape import Input, Tape
from tapegrad.trace import global_arrays, numpy_warnings, ownership, proxy
from tapegrad.trace.collector import collector
from tapegrad.trace.concretize import translated_error
from tapegrad.trace.context import DEFAULT, Context
from tapegrad.trace.escaped_proxies import Made
from tapegrad.trace.holders import replacement
from tapegrad.trace.inputs import call_method, check_shared, check_written, flatten_call, print_of
from tapegrad.trace.interposition import stand_in
from tapegrad.trace.lazy_frontends import register_imported
from tapegrad.trace.number_systems import follow, plain_array
from tapegrad.trace.random_state import DRAWN, Found
from tapegrad.trace.rebinding import Rerouting
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.replaceable_names import holders
from tapegrad.trace.replacement import interposition
from tapegrad.trace.results import put_result, returned
from tapegrad.trace.shared_arguments import is_doubled, tie, twins
from tapegrad.trace.uncopied import Blind
from tapegrad.trace.value_retention import Retention, is_large
from tapegrad.trace.write_back import Copies, attributes_of_tensors, settle
from tapegrad.tree.argnums import ALL, Wanted
from tapegrad.tree.flatten import Walk

R = TypeVar("R")


def trace(f: Callable[..., R], /, *args: Any, ctx: Context | None = None, **kwargs: Any) -> tuple[R, Tape]:
    """Run `f(*args, **kwargs)` once, and return its value and the tape of every primitive call it made.

    Numbers and arrays among the arguments, nested in tuples, lists, dicts, dataclasses or objects, become inputs, and
    so do the captures of a closure, a bound method or a callable object. `ctx` decides what is primitive.
    Raises UnknownFunction for a function that tapegrad has no op for.

    >>> value, tape = trace(lambda a, b: a / (a + b * b), 2.0, 3.0)
    >>> value
    0.18181818181818182
    >>> [op.fn.__name__ for op in tape if op.kind == "call"]
    ['multiply', 'add', 'divide']
    """
    tape = record(f, args, kwargs, ctx or DEFAULT, found=Found(f, args, kwargs))
    settle(tape)
    return returned(tape), tape


def record(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ctx: Context, grad: bool = False,
           copy: bool = False, once: Retention | None = None, observer: Any = None, found: Found | None = None,
           wanted: Wanted = ALL, replays: bool = True, done: Callable[..., None] | None = None,
           stands_for: dict[int, list[Any]] | None = None) -> Tape:
    """Trace, and return the tape; in `grad` mode it keeps the pullbacks of functions that have an rrule.

    once: retention for a tape that is swept once: it drops large values that the sweep does not read. observer: is told
    which code the function runs. found: the random generators that were found; a guard rejects a replay if the program
    drew from others. replays: False for a tape without guards. done: called after the run with the structures of the
    arguments, the objects built from them, and the proxies of their leaves. stands_for: maps the id of an argument's
    part that is a copy to its originals; references to these are rerouted to the copy as well.
    """
    if not callable(f):
        raise CallError(f"{brief(f)} is not a function", user_location(),
                        "the function first, then its arguments: tg.grad(f, x)")
    tables = global_arrays.known(f)

    def run(witness: Any, tables: bool | str) -> Tape:
        made = Made()
        # objects made while the trace runs are recognised by their age
        with Work("tracing", f, made.count), collector:
            try:
                tape = _record(f, args, kwargs, ctx, grad, copy, once, witness, found, wanted, replays, tables, done,
                               made, stands_for or {})
            except BaseException:
                if made.tracer is not None:
                    made.release(f)
                raise
            if not made.has_no_survivors():
                made.release(f)
            return tape
    try:
        try:
            return run(observer, tables)
        except TapeError as err:
            if tables or not err.outside:
                raise
            refusal = err
        if once is not None:
            once.begun = False
        return global_arrays.run_again(f, run, refusal, observer)
    except Exception as err:
        fold(err)
        raise


def _record(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ctx: Context, grad: bool, copy: bool,
            once: Retention | None, observer: Any, found: Found | None, wanted: Wanted, replays: bool,
            tables: bool | str, done: Callable[..., None] | None, made: Made, stands_for: dict[int, list[Any]]) -> Tape:
    """Run the program once; if `tables`, trace the arrays that it reads by name, those of packages as well."""
    register_imported()
    walks: list[Walk] = []
    signature, leaves, labels = flatten_call(f, args, kwargs, walks)
    signature.wanted = wanted.among(len(args))
    originals = list(leaves)
    others = [i for i, leaf in enumerate(leaves) if type(leaf) not in PYTHON]
    for i in others:
        if type(leaf := leaves[i]) not in ORDINARY:
            plain_array(leaf, labels[i])
            leaves[i] = detached(leaf)
    if grad:
        signature.refuse_opaque()
    if copy:
        leaves = duplicates(leaves)
        for part in (signature.function, *signature.args, *signature.kwargs.values()):
            for k in part.kept:  # of an outer trace: the write-back at the end must not change it here
                leaves[k] = duplicate(leaves[k]) if isinstance(leaves[k], Traced) else leaves[k]
    tape = Tape(f)
    tape.structure = signature
    tracer = Tracer(tape, ctx, proxy.make, grad, once, replays)
    made.tracer, made.tape, made.given = tracer, tape, originals
    inputs = [Input(leaf, label) for leaf, label in zip(leaves, labels)]
    for number, x in enumerate(inputs, 2):
        x.id = number
    tape.ops += inputs
    for known in filter(None, [system_within(originals[i]) for i in others]):
        follow(tracer, known)
    proxies: list[Any] = [proxy.make(x, x.val, tracer) for x in inputs]
    kept = [walk for walk in walks if walk.keep]
    blind = Blind(walks) if kept or any(walk.blind for walk in walks) else None
    tied = tie(signature, args, walks, proxies) if len(kept) > 1 and any(walk.stateful for walk in walks) else []
    double = twins(originals, proxies) if len(others) > 1 and is_doubled([originals[i] for i in others]) else {}
    tracer.inputs, tracer.blind = proxies, blind
    arrays = {i: leaves[i] for i in others if type(leaves[i]) is np.ndarray}
    for leaf in filter(is_large, arrays.values()):
        tracer.meet(leaf)
    before = {i: print_of(leaf) for i, leaf in arrays.items()}
    nested = [signature.function, *signature.args, *signature.kwargs.values()]
    memos: list[dict[int, Any]] = [{} for _ in nested]
    built = [structure.build(proxies, memo) for structure, memo in zip(nested, memos)]
    fn, given = built[0], built[1:]
    names = [] if found is None else found.apart_from(signature)
    rerouting = Rerouting() if tables or any(memos) or double or kept else None
    leave = interposition.enter(tracer, lambda: [_globals(fn), *names, *holders(fn, given, walks)],
                                 [g for g in (*ctx.primitives, *(INTERPOSED if tracer.followed else ()))
                                  if isinstance(g, FunctionType)])
    said = numpy_warnings.begin()
    try:
        if rerouting is not None:
            rerouting.begin(tracer, walks, memos, tables, tied, double, stands_for)
            if blind is not None and blind.past:
                blind.check_asked(tracer.copies, [proxies[k - 1] for k in differentiated(tape)] if grad else [])
            made.take(rerouting.pairs)
        if observer is not None:
            observer.start(signature)
        there = [x if type(x) in PROXIES else replacement(x) for x in given]
        out = stand_in(fn)(*there[:len(args)], **dict(zip(kwargs, there[len(args):])))
        check_shared(signature, nested, memos, proxies)
        check_written(f, arrays, labels, before)
        ownership.check(tracer)
        numpy_warnings.check_modes(tracer)
        if done is not None:
            done(nested, memos, proxies)
        if rerouting is not None:
            rerouting.check()
            signature.reached = rerouting.reached(walks) if replays else None
        put_result(tape, tracer, out)
        if tracer.refusal is not None:
            raise tracer.refusal
        copies = None if rerouting is None else rerouting.copies
        if copies is not None or tracer.written or any(attributes_of_tensors(tracer, originals)):
            copies = copies or Copies((), {})
            signature.effects = copies.effects(tape, tracer, originals, grad)
            if signature.effects is not None and blind is not None:
                blind.check_written(signature.effects, copies, originals)
        if observer is not None:
            observer.close()
        if found is not None and (what := found.unrecorded(tape)):
            tracer.guard(tape.ops[0], "recorded", (f"draws from {what}, whose draws could not be recorded", DRAWN))
    except Exception as err:
        if isinstance(err.__cause__, TapeError):  # NumPy raises its own error from it
            raise err.__cause__ from None
        if tracer.refusal is not None and not isinstance(err, TapeError):
            raise tracer.refusal from tracer.refusal.__cause__
        if (refusal := translated_error(err)) is not None:
            raise refusal from err
        of_the_call = err.__traceback__ is not None and err.__traceback__.tb_next is None
        if isinstance(err, TypeError) and not args and of_the_call:
            raise CallError(f"there are no arguments: {err}", user_location(),
                            "pass the function and its arguments in one call, tg.grad(f, x); or call the function that "
                            "tg.value_and_grad(f) returns") from err
        raise
    finally:
        if observer is not None:
            observer.close()
        try:
            if rerouting is not None:
                rerouting.end()
        finally:
            tracer.close()
            leave()
            numpy_warnings.end(said)
    if tracer.retention is not None:
        del out
        tracer.retention.release(last=True)
    return tape


def _globals(fn: Callable[..., Any]) -> dict[str, Any]:
    fn = getattr(fn, "__func__", fn)
    if not isinstance(fn, FunctionType):
        fn = call_method(fn)
    return getattr(fn, "__globals__", {})
