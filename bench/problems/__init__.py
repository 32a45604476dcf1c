"""The problems by name: one module each, which ends in its PROBLEM."""

from __future__ import annotations

from bench.problems import (
    ba,
    elementwise,
    fft_filter,
    filling,
    gmm,
    gp,
    lstm,
    mlp,
    rational,
    recurrence,
    rk4,
    rosenbrock,
    tr_mul,
    transformer,
)
from bench.problems.forms import forms
from bench.problems.problem import Problem

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (
    rational.PROBLEM, recurrence.PROBLEM, tr_mul.PROBLEM, rosenbrock.PROBLEM, mlp.PROBLEM, mlp.SINGLE,
    elementwise.PROBLEM, gmm.PROBLEM,
    ba.PROBLEM, lstm.PROBLEM, gp.PROBLEM, rk4.PROBLEM, fft_filter.PROBLEM, filling.PROBLEM, transformer.PROBLEM)}

FORMS: dict[str, Problem] = {form.name: form for problem in (recurrence, rosenbrock, rk4, lstm, gmm, ba)
                             for form in forms(problem.PROBLEM)}
ALL: dict[str, Problem] = {**PROBLEMS, **FORMS}
