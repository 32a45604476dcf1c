"""A corpus of programs that others wrote, and of scripts as tutorials have them: what tapegrad makes of each."""
