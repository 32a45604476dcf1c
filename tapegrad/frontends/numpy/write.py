"""NumPy's writes in place."""

from __future__ import annotations

import operator
from typing import Any

from tapegrad import views
from tapegrad.frontends.common import as_array
from tapegrad.frontends.numpy.index import index_parts
from tapegrad.rules import means


@means(operator.setitem)
def setitem(x: Any, index: Any, value: Any) -> None:
    views.write(x, index_parts(index), as_array(value))
