"""How torch spells the ops, and how its programs are traced: imported once the user has imported torch."""

from tapegrad.frontends.torch import arrange, call, create, elementwise, facts, index, linalg, proxy, reduce, shape, write
