"""The frontends: how foreign functions are written in ops; importing a frontend registers its functions."""

from tapegrad.frontends import cmath, math, numpy
