"""missing_rule: the error of an op without a rule, with a rule to paste and to complete."""

from __future__ import annotations

import inspect
from typing import Any

from tapegrad.errors import Location, MissingRule


def missing_rule(op: Any, args: tuple[Any, ...], where: Location | None = None) -> MissingRule:
    """Say which op has no rule, and give a stub to paste."""
    name = op.__name__
    fn = name if name.isidentifier() else "f"  # of a lambda
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
