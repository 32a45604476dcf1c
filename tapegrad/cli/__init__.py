"""The command line: trace, differentiate, show, save and map from a shell."""

from tapegrad.cli.parser import main

__all__ = ["main"]
