"""torch.nn.functional: what its functions mean where that is more than torch's own function recorded whole."""

from tapegrad.frontends.torch.nn import activation, body, dropout, linear, recurrent
