"""Ops and their derivatives: the registry, residuals, and the results of rules."""
