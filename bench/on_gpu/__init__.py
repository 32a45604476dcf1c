"""bench/gpu.py: what is checked and measured on a GPU."""
