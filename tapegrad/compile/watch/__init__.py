"""What a compiled function depends on besides its arguments: observed during tracing, compared again at each call."""
