"""torch.nn.functional: what its functions mean, one file per family."""

from tapegrad.frontends.torch.nn import (
    activation,
    attention,
    body,
    convolution,
    dropout,
    embedding,
    linear,
    loss,
    norm,
    pool,
    recurrent,
)
