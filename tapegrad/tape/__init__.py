"""The tape: operations in order, their checks, the subtapes that calls carry, and the interpreter."""
