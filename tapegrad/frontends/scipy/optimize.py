"""scipy.optimize: called from outside, with gradients from tapegrad, it needs nothing; inside a trace it is refused."""

from __future__ import annotations

import scipy.optimize as so

from tapegrad.rules.registry import refuse

refuse(so.minimize, so.minimize_scalar, so.root, so.root_scalar, so.least_squares, so.fsolve, so.brentq, so.bisect, so.newton, so.curve_fit,
       so.linprog, why="the steps of the solver depend on values", derivative=True,
       try_="call it with tg.value(x), and differentiate its solution by a rule of your own (@tg.primitive, and the implicit function theorem)")
