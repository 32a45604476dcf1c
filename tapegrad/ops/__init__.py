"""The ops, one file per family; importing a family registers it."""

from tapegrad.ops.activation import *
from tapegrad.ops.convolution import *
from tapegrad.ops.create import *
from tapegrad.ops.decompose import *
from tapegrad.ops.elementwise import *
from tapegrad.ops.equations import *
from tapegrad.ops.fft import *
from tapegrad.ops.hook import *
from tapegrad.ops.index import *
from tapegrad.ops.layer import *
from tapegrad.ops.linalg import *
from tapegrad.ops.norm import *
from tapegrad.ops.numeric import *
from tapegrad.ops.promotion import *
from tapegrad.ops.random import *
from tapegrad.ops.reduce import *
from tapegrad.ops.sets import *
from tapegrad.ops.shape import *
from tapegrad.ops.signal import *
from tapegrad.ops.sort import *
from tapegrad.ops.sparse import *
from tapegrad.ops.special import *
from tapegrad.ops.structure import *
from tapegrad.ops.triangular import *
from tapegrad.ops.trigonometric import *
from tapegrad.ops.write import *
