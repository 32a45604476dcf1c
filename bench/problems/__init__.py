"""The problems by name: one module each, which ends in its PROBLEM."""

from __future__ import annotations

from bench.problems import filling, gmm, recurrence
from bench.problems.problem import Problem

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (gmm.PROBLEM, recurrence.PROBLEM, filling.PROBLEM)}
