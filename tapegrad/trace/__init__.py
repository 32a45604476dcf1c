"""Tracing: a function runs once on proxies, and what it calls is recorded."""
