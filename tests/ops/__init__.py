"""Every op, by the table of cases."""
