"""missing_rule: the error for an op without a rule; it includes a stub to paste and complete."""

from __future__ import annotations

import inspect
from typing import Any

from tapegrad.errors import Location, MissingRule


def missing_rule(op: Any, args: tuple[Any, ...], where: Location | None = None) -> MissingRule:
    """Return the error that names the op and contains the stub of a rule."""
    name = op.__name__
    fn = name if name.isidentifier() else "f"  # a lambda's name is no identifier
    try:
        names = [p.name for p in inspect.signature(op.impl).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    names = names[: len(args)] if len(names) >= len(args) else [f"x{i}" for i in range(1, len(args) + 1)]
    stub = (f"@tg.rrule({fn})\n"
            f"      def _({', '.join(names)}):\n"
            f"          def {fn}_pullback(dy):\n"
            f"              return {''.join(f'd{n}, ' for n in names).rstrip()}   # one cotangent per argument\n"
            f"          return {fn}({', '.join(names)}), {fn}_pullback")
    return MissingRule(f"{name} has no rule: its gradient is needed here", where, f"paste and complete\n      {stub}")
