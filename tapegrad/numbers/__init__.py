"""What numbers, arrays and tensors are: their kinds, how each is written, compared, converted and read in part."""
