"""NumPy's functions that cannot be recorded on a tape, each with the reason and an alternative."""

from __future__ import annotations

import numpy as np

from tapegrad.rules.registry import refuse

DROPPED = "tg.value(x), which drops the gradient on purpose"

refuse(np.packbits, np.unpackbits, np.ndarray.byteswap, np.ndarray.getfield,
       why="it reads the bytes of numbers as other numbers", try_="x.astype(dtype)")
refuse(np.ndarray.setfield, why="it writes the bytes of other numbers into numbers", try_="x[...] = value",
       derivative=True)
refuse(np.save, np.savetxt, np.savez, np.savez_compressed, np.ndarray.dump, np.ndarray.dumps, np.ndarray.tobytes,
       np.ndarray.tofile, *[vars(np.ndarray)[name] for name in ("tostring",) if name in vars(np.ndarray)],  # NumPy 2.2
       np.ndarray.data, np.ndarray.ctypes, why="the numbers leave the program, and their gradient with them",
       try_=DROPPED)
refuse(np.ndarray.base, why="which memory arrays share is not a question of values, and differs from run to run",
       try_="np.may_share_memory(x, y)")
refuse(np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string, np.isnat, why="dates have no derivative",
       try_=DROPPED)
refuse(np.ndarray.resize, why="it changes the array itself, and not its numbers",
       try_="a new array: np.resize(x, shape)", derivative=True)
refuse(np.asmatrix, np.bmat, why="a matrix multiplies as no array does",
       try_="an array (np.block makes one of blocks), and x @ y", derivative=True)
refuse(np.intersect1d, why="what two arrays have in common belongs to both, and has no derivative",
       try_="_, i, k = np.intersect1d(tg.value(a), tg.value(b), return_indices=True), and a[i] or b[k]",
       derivative=True)
refuse(np.min_scalar_type, why="the smallest dtype depends on the value", try_="x.dtype")
