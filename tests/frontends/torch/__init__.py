"""Tests of tracing torch code."""
