"""How torch spells the ops, and how its programs are traced: imported once the user has imported torch."""

from tapegrad.frontends.torch import (
    arrange,
    call,
    compiled,
    create,
    elementwise,
    facts,
    function,
    index,
    linalg,
    nn,
    proxy,
    reduce,
    shape,
    statistics,
    write,
)
