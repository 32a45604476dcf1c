"""What the world answers and goes to an attribute that nothing reads does not keep a function from being compiled."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import operator
import time
import types
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

KEPT: list[Any] = []


class Model:
    def __init__(self, w: Any) -> None:
        self.w = w

    def fit(self, x: float) -> Any:
        self.started = time.time()
        self.id = uuid.uuid4()
        self.date = datetime.datetime.now(datetime.timezone.utc)
        self.coef = self.w * x
        return self

    def age(self) -> float:
        return time.time() - self.started


class Loud(Model):
    def __setattr__(self, name: str, value: Any) -> None:
        KEPT.append(value)
        object.__setattr__(self, name, value)


class Property(Model):
    @property
    def started(self) -> Any:
        return KEPT[-1]

    @started.setter
    def started(self, value: Any) -> None:
        KEPT.append(value)


@dataclasses.dataclass
class Compared:
    w: Any
    started: float = 0.0

    def fit(self, x: float) -> Any:
        self.started = time.perf_counter()
        return self


class Equal(types.SimpleNamespace):
    def fit(self) -> Any:
        self.started = time.time()
        return self


class Shared(Model):
    def __init__(self, w: Any) -> None:
        self.__dict__ = TABLE
        self.w = w


class Left(Model):
    def __del__(self) -> None:
        KEPT.append(self.started)


class Held:
    def __init__(self, x: Any) -> None:
        self.model = Model(x).fit(3.0)


def kept(x: Any) -> Any:
    KEPT.append(Model(x).fit(3.0))
    return KEPT[-1].coef * x


def summed(x: Any) -> Any:
    return np.sum(Model(x).fit(3.0).coef * x)


def local(x: Any) -> Any:
    start = time.time()
    return x * x if time.time() >= start else x


def matched(x: Any) -> Any:
    model = Model(x).fit(3.0)
    match model:
        case Model(started=start) if start > 0:
            return model.coef * x
    return x


def of(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        model = Model(x).fit(3.0)
        return model.coef * x + (0.0 if read(model) else 1.0)
    return f


NAME = "started"
FORMAT = "{0.started}".format
TABLE: dict[str, Any] = {}
MODEL = Model(2.0)
MADE: Any = collections.defaultdict(uuid.uuid4)


def table(x: Any) -> Any:
    MADE.clear()
    model = Model(x)
    model.id = MADE[0]
    return x * (MADE[0].int % 1000)


def left(x: Any) -> Any:
    model = Left(x).fit(3.0)
    coef = model.coef
    del model
    return coef * x if KEPT.pop() > 0 else x


def captured(model: Any) -> Callable[[Any], Any]:
    return lambda x: model.fit(x).coef * x


UNREAD = {"unread": lambda x: Model(x).fit(3.0).coef * x, "held": lambda x: Held(x).model.coef * x, "numpy": summed, "another": of(lambda m: m.coef),
          "computed": of(lambda m: getattr(m, NAME[:0] + "coef"))}
READ: dict[str, Callable[[Any], Any]] = {
    "method": of(lambda m: m.age() < 1e9), "attribute": of(lambda m: m.started > 0), "uuid": of(lambda m: m.id.int), "date": of(lambda m: m.date.year), "dict": of(lambda m: vars(m)["started"]),
    "computed": of(lambda m: getattr(m, "st" + "arted")), "literal": of(lambda m: getattr(m, "started")), "unheard": of(lambda m: [*map(getattr, [m], [NAME])][0]),  # noqa: B009, RUF015
    "attrgetter": of(lambda m: operator.attrgetter(NAME)(m)), "format": of(lambda m: float("{0.started}".format(m)) > 0), "has": of(lambda m: hasattr(m, NAME)),  # noqa: UP030, UP032
    "copied": lambda x: copy.copy(Model(x).fit(3.0)).coef * x, "kept": kept, "local": local, "matched": matched, "loud": lambda x: Loud(x).fit(3.0).coef * x,
    "a format's method": of(lambda m: float(FORMAT(m)) > 0), "equal": lambda x: x * x + float(Equal().fit() == Equal(started=1.0)),
    "shared": lambda x: Shared(x).fit(3.0).coef * x + (TABLE["started"] < 0), "table": table, "left": left,
    "captured": captured(MODEL), "global": lambda x: MODEL.fit(3.0).w * x,
    "property": lambda x: Property(x).fit(3.0).coef * x, "compared": lambda x: x * x + float(Compared(x).fit(1.0) == Compared(x).fit(1.0)),
}


def compiled(f: Callable[[Any], Any]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = tg.value_and_grad(f, warmup=1)
        for x in (1.0, 2.0, 3.0, 4.0):
            assert step(x)[0] == f(x) or f is table
    return step.stats.hits  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_not_read_is_no_reason(name: str) -> None:
    assert compiled(UNREAD[name]) >= 3


@pytest.mark.parametrize("name", READ)
def test_what_may_be_read_is_one(name: str) -> None:
    assert compiled(READ[name]) == 0


def test_an_object_that_is_returned_has_the_time_of_its_call() -> None:
    def f(x: Any) -> Any:
        model = Model(x).fit(3.0)
        return model.coef * x, model
    with pytest.warns(tg.RetraceWarning):
        step = tg.value_and_grad(f, has_aux=True, warmup=1)
        seen = [step(x)[0][1] for x in (1.0, 2.0, 3.0, 4.0)]
    assert len({model.started for model in seen}) == len({model.id for model in seen}) == 4
