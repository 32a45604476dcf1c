"""The forms in which users write an objective: its data in a closure, in an object's attributes, and with arrays that
loops make or fill.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench.problems import arrays
from bench.problems.problem import Problem

CLOSURE = """
def make({given}):
    def loss({wrt}):
        return objective({wrt}{data})
    return loss
"""
METHOD = """
class Model:
    def __init__(self{comma}{given}):
        {store}

    def loss(self, {wrt}):
        return objective({wrt}{attributes})


def make({given}):
    return Model({given}).loss
"""


def written(template: str, problem: Problem, objective: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the arguments `wrt`, from the source text of a form, with the problem's data inside."""
    names = list(problem.given)
    text = template.format(
        given=", ".join(names), wrt=", ".join(problem.wrt), comma=", " if names else "",
        data="".join(f", {name}={name}" for name in names),
        attributes="".join(f", {name}=self.{name}" for name in names),
        store="; ".join(f"self.{name} = {name}" for name in names) or "pass")
    space: dict[str, Any] = {"objective": objective, "__name__": __name__}
    exec(compile(text, f"<{problem.name}>", "exec"), space)
    return space["make"](**problem.given)  # type: ignore[no-any-return]


def closure(problem: Problem, objective: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the arguments `wrt` in whose closure the data are."""
    return written(CLOSURE, problem, objective)


def method(problem: Problem, objective: Callable[..., Any]) -> Callable[..., Any]:
    """Return a bound method of an object in whose attributes the data are."""
    return written(METHOD, problem, objective)


def forms(problem: Problem) -> list[Problem]:
    """Return a problem in each of the three forms."""
    return [replace(problem, name=f"{problem.name} (closure)", form=closure),
            replace(problem, name=f"{problem.name} (method)", form=method),
            replace(problem, name=f"{problem.name} (arrays)", other=getattr(arrays, problem.name))]
