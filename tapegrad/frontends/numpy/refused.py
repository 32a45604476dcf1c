"""NumPy's functions that cannot be recorded on a tape, each with the reason and an alternative."""

from __future__ import annotations

import numpy as np

from tapegrad.rules.registry import refuse

DROPPED = "tg.value(x), which drops the gradient on purpose"

refuse(np.packbits, np.unpackbits, np.ndarray.byteswap, np.ndarray.getfield,
       why="it reinterprets the bytes of numbers", try_="x.astype(dtype)")
refuse(np.ndarray.setfield, why="it writes raw bytes into the array", try_="x[...] = value",
       derivative=True)
refuse(np.save, np.savetxt, np.savez, np.savez_compressed, np.ndarray.dump, np.ndarray.dumps, np.ndarray.tobytes,
       np.ndarray.tofile, *[vars(np.ndarray)[name] for name in ("tostring",) if name in vars(np.ndarray)],  # NumPy 2.2
       np.ndarray.data, np.ndarray.ctypes, why="it exports the numbers, and their gradient is lost",
       try_=DROPPED)
refuse(np.ndarray.base, why="the answer depends on memory addresses, which differ from run to run",
       try_="np.may_share_memory(x, y)")
refuse(np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string, np.isnat, why="dates have no derivative",
       try_=DROPPED)
refuse(np.ndarray.resize, why="it changes the array's memory in place",
       try_="make a new array: np.resize(x, shape)", derivative=True)
refuse(np.asmatrix, np.bmat, why="np.matrix multiplies differently from an array",
       try_="use an array (np.block makes one from blocks), and x @ y", derivative=True)
refuse(np.intersect1d, why="a common element belongs to both arrays, so its derivative is not defined",
       try_="_, i, k = np.intersect1d(tg.value(a), tg.value(b), return_indices=True), and a[i] or b[k]",
       derivative=True)
refuse(np.min_scalar_type, why="the smallest dtype depends on the value", try_="x.dtype")
