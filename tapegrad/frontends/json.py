"""Stand-ins for `json`: `dump` and `dumps` accept plain numbers only, and `loads` no text of a traced one."""

import json

from tapegrad.trace.eval_text import reading
from tapegrad.trace.plain_arguments import CALLED, with_plain_arguments

CALLED.update((fn, with_plain_arguments(fn)) for fn in (json.dump, json.dumps))
CALLED[json.loads] = reading("json.loads", json.loads)
