"""A model's description, as text."""
import json
import re

TEXT = '{"layers": [{"units": "4", "activation": "tanh"}, {"units": "1", "activation": "linear"}], "rate": "1e-1"}'
PATTERN = re.compile(r"^[0-9.e+-]+$")


def parse(text=TEXT):
    def numbers(d):
        return {k: float(v) if isinstance(v, str) and PATTERN.match(v) else v for k, v in d.items()}
    return json.loads(text, object_hook=numbers)
