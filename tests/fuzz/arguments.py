"""arguments: what programs are called with. One row per kind of argument; the numbers of each call are drawn apart."""

from __future__ import annotations

from random import Random
from typing import NamedTuple


class Parameter(NamedTuple):
    """A kind of argument: its text, in which `#` is a number, `!` an int and `3` the length of an axis; expressions of it (`~`), by kind."""

    text: str
    uses: tuple[tuple[str, str], ...] = ()
    weight: int = 1


V3, V32 = "np.array([#, #, #])", "np.array([[#, #, #], [#, #, #]])"
PARAMETERS = (
    Parameter(V3, (("v", "~"),), 8),
    Parameter(V32, (("m", "~"),), 5),
    Parameter("np.array([[#, #, #], [#, #, #], [#, #, #]])", (("m", "~"),), 5),
    Parameter("#", (("s", "~"),), 9),
    Parameter("np.float64(#)", (("s", "~"),), 2),
    Parameter("np.array(#)", (("s", "~.sum()"), ("x", "~")), 1),
    Parameter("np.array([#, #, #], np.float32)", (("v", "~"),), 2),
    Parameter("np.float32(#)", (("s", "~"),), 1),
    Parameter("np.array([# + #j, # + #j, # + #j])", (("c", "~"),), 3),
    Parameter("complex(#, #)", (("s", "~.real"), ("c", "~ * $v"), ("s", "abs(~)")), 1),
    Parameter("np.array([!, !, !])", (("w", "~"), ("v", "~ * $v")), 2),
    Parameter("!", (("i", "~"), ("s", "~ * $s"), ("x", "$x ** ~")), 3),
    Parameter("np.array([# > 0, # > 0, # > 0])", (("b", "~"),), 1),
    Parameter("# > 0", (("t", "~"),), 1),
    Parameter("np.asfortranarray([[#, #, #], [#, #, #]])", (("m", "~"),), 1),
    Parameter("np.array([#, #, #])[::-1]", (("v", "~"),), 1),
    Parameter("np.array([#, #, #, #, #, #])[::2]", (("v", "~"),), 1),
    Parameter("np.array([[#, #], [#, #], [#, #]]).T", (("m", "~"),), 1),
    Parameter("np.array([[[#, #, #], [#, #, #]]])", (("a", "~"), ("m", "~[0]")), 1),
    Parameter("[np.array([#, #, #]), #]", (("v", "~[0]"), ("s", "~[1]")), 1),
    Parameter("[#, #, #]", (("s", "~[1]"), ("s", "sum(~)"), ("v", "np.array(~)")), 1),
    Parameter("(#, np.array([[#, #, #], [#, #, #]]))", (("s", "~[0]"), ("m", "~[1]")), 1),
    Parameter("{'w': np.array([#, #, #]), 'k': #}", (("v", "~['w']"), ("s", "~['k']"), ("s", "sum(~.values()).sum()")), 2),
    Parameter("types.SimpleNamespace(w=np.array([#, #, #]), k=#, name='p')", (("v", "~.w"), ("s", "~.k")), 1),
    Parameter("'sin'", (("x", "getattr(np, ~)($x)"),), 1),
    Parameter("collections.OrderedDict(p=#, q=[#, #])", (("s", "~['p']"), ("s", "~['q'][0]")), 1),
)

OTHERS = ("np.array([#, #])", "np.array([#, #, #, #])", "np.array([#, #, #], np.float32)", "#", "!", "np.float64(#)", "np.array([!, !, !])", "np.asfortranarray([[#, #, #], [#, #, #]])", "None",
          "np.array([#, #, #])[::-1]", "np.array([#, #, #, #, #, #])[::2]", "np.array([[#, #], [#, #], [#, #]]).T", "np.array([[#, #, #], [#, #, #]])", "np.broadcast_to(#, (3,))")
"""What may stand where another kind of argument stood: a function is traced again."""

SHARED = ("ARG", "ARG[::-1]", "ARG[:]", "ARG[1:]")
"""What may stand beside `(ARG := ...)`, an array whose memory it shares."""

NICE = (0.0, 1.0, -1.0, 0.5, 2.0, 0.0)


def numbers(random: Random, nice: bool = False) -> list[float]:
    """Draw the numbers of an argument, more than any has."""
    return [random.choice(NICE) if nice else random.gauss(0.0, 1.0) for _ in range(12)]


def moved(random: Random, values: list[float], by: float) -> list[float]:
    """Return numbers near others."""
    return [x + by * random.gauss(0.0, 1.0) for x in values]


def spelled(text: str, values: list[float]) -> str:
    """Return the text of an argument with its numbers."""
    left = iter(values)
    out = []
    for letter in text:
        out.append(repr(round(next(left), 3)) if letter == "#" else str(abs(round(2 * next(left))) % 3) if letter == "!" else letter)
    return "".join(out).replace("+ -", "- ")
