"""Tapes as machine code: `mode="native"`. It needs llvmlite, which is imported when the first tape is compiled."""
