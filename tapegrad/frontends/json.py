"""Stand-ins for `json.dump` and `json.dumps`, which accept plain numbers only."""

import json

from tapegrad.trace.plain_arguments import CALLED, with_plain_arguments

CALLED.update((fn, with_plain_arguments(fn)) for fn in (json.dump, json.dumps))
