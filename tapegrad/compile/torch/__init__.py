"""Tapes on torch: lowered to its own calls, and those written out, captured as a CUDA graph,
or compiled by Inductor.
"""
