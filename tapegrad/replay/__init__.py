"""Replay: running a tape on other arguments, with the checks that refuse arguments it is not valid for."""
