"""Ops and their derivatives: the registry, cotangents, what a rule reads and returns."""
