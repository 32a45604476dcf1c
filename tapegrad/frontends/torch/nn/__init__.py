"""torch.nn.functional: implementations of functions that are not recorded whole."""

from tapegrad.frontends.torch.nn import activation, body, dropout, linear, recurrent
