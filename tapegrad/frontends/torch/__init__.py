"""How torch's functions are written in ops, and how its programs are traced; imported once the user imports torch."""

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
