"""Tapes lowered to torch's operators, which are written as Python, captured as CUDA graph, or compiled by Inductor."""
