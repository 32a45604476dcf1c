"""Numbers, arrays and tensors."""
