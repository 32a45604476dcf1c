"""notebook: how what prints itself on a terminal is shown in a notebook."""

from __future__ import annotations

from typing import Any


def mimebundle(self: Any, include: Any = None, exclude: Any = None, **_: Any) -> dict[str, str]:
    """Return the text of a report, and the same as HTML in its colours: a class of reports has it as
    `_repr_mimebundle_`.
    """
    from rich.jupyter import JupyterMixin
    found = JupyterMixin._repr_mimebundle_(self, include, exclude)
    return {kind: str(self) if kind == "text/plain" else text for kind, text in found.items()}
