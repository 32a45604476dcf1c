"""Stand-ins for `json.dump` and `json.dumps`, which accept plain numbers only."""

import json

from tapegrad.trace.handing import CALLED, of_plain

CALLED.update((fn, of_plain(fn)) for fn in (json.dump, json.dumps))
