"""How numpy and math spell the ops; importing a frontend registers it."""

from tapegrad.frontends import cmath, math, numpy
