"""How torch spells the ops, and how its programs are traced: imported once the user has imported torch."""

from tapegrad.frontends.torch import call, create, elementwise, facts, proxy, reduce, shape, write
