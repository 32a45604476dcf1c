"""What the standard library's `json` takes: plain numbers alone."""

import json

from tapegrad.trace.handing import CALLED, of_plain

CALLED.update((fn, of_plain(fn)) for fn in (json.dump, json.dumps))
