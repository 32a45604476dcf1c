"""Tests of torch.nn.functional."""
