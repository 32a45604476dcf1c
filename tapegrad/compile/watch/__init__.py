"""What a compiled function depends on besides its arguments: observed when it is traced, looked at
again when it is called.
"""
