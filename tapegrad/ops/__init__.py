"""The ops, one file per family; importing a family registers it."""

from tapegrad.ops.random import *  # noqa: F403
from tapegrad.ops.create import *  # noqa: F403
from tapegrad.ops.decompose import *  # noqa: F403
from tapegrad.ops.elementwise import *  # noqa: F403
from tapegrad.ops.equations import *  # noqa: F403
from tapegrad.ops.fft import *  # noqa: F403
from tapegrad.ops.index import *  # noqa: F403
from tapegrad.ops.linalg import *  # noqa: F403
from tapegrad.ops.numeric import *  # noqa: F403
from tapegrad.ops.reduce import *  # noqa: F403
from tapegrad.ops.sets import *  # noqa: F403
from tapegrad.ops.shape import *  # noqa: F403
from tapegrad.ops.signal import *  # noqa: F403
from tapegrad.ops.sort import *  # noqa: F403
from tapegrad.ops.special import *  # noqa: F403
from tapegrad.ops.structure import *  # noqa: F403
from tapegrad.ops.write import *  # noqa: F403
