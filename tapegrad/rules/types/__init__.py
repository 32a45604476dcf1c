"""Result types of ops, computed from the types of their arguments by families that many ops share.

An op names its family by `spec=`: `spec=types.matmul`. See `family`.
"""

from tapegrad.rules.types.contraction import *
from tapegrad.rules.types.creation import *
from tapegrad.rules.types.elementwise import *
from tapegrad.rules.types.family import *
from tapegrad.rules.types.indexing import *
from tapegrad.rules.types.matrices import *
from tapegrad.rules.types.reduction import *
from tapegrad.rules.types.reshaping import *
from tapegrad.rules.types.stored import *
