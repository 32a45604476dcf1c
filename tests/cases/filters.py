"""Cases of SciPy's transforms, filters and distances: scipy.fft, scipy.ndimage, scipy.signal, scipy.spatial.distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft as sf
import scipy.ndimage as sn
import scipy.signal as sg
import scipy.spatial.distance as sd
from scipy.spatial import KDTree

from tapegrad.trace.lazy_frontends import register_imported
from tests.cases.case import Case, draw

register_imported()

B, A = np.array([0.2, 0.3, 0.1]), np.array([1.0, -0.5, 0.25])
SECTIONS = np.array([[0.2, 0.3, 0.1, 1.0, -0.5, 0.25], [1.0, -0.4, 0.0, 1.0, 0.3, 0.0]])
MATRIX, LINE = draw(4, 3), draw(5)


def distance(name: str, ops: str, *samples: tuple[Any, ...], **kwargs: Any) -> Case:
    """A distance of two vectors, weighted or not, and of all pairs of rows."""
    def fn(u: Any, v: Any, w: Any = None) -> Any:
        u, v = np.real(u), np.real(v)  # SciPy takes no complex vectors
        one = getattr(sd, name)(u, v) if w is None else getattr(sd, name)(u, v, w=w)
        rows = np.stack([u, v, u * v])
        return one + np.sum(sd.pdist(rows, name, **kwargs)) + np.sum(sd.cdist(rows, rows[:2] * 0.7, name, **kwargs) * np.arange(6).reshape(3, 2))
    u, v = draw(4, low=0.5, high=3.0), draw(4, low=0.2, high=2.0, seed=1)
    return Case(f"{ops}:{name}", fn, [(u, v), (u, v, draw(4, low=0.5, seed=2)), *samples])


CASES = [
    # -- transforms
    *[Case(f"dct:{name}{type}{norm}", lambda x, how=(name, type, norm): getattr(sf, how[0])(x, how[1], norm=how[2]), [(LINE,), (MATRIX,), (draw(3) + 1j,)])
      for type in (1, 2, 3, 4) for name, norm in (("dct", None), ("idct", "ortho"))],
    *[Case(f"dst:{name}{type}{norm}", lambda x, how=(name, type, norm): getattr(sf, how[0])(x, how[1], norm=how[2]), [(LINE,), (MATRIX,), (draw(3) + 1j,)])
      for type in (1, 2, 3, 4) for name, norm in (("dst", "forward"), ("idst", "ortho"))],
    Case("dct:n", lambda x: sf.dctn(x, s=(3, 6), axes=(1, 0)).T @ sf.dctn(x, s=(6,), axes=(0,), norm="ortho"), [(MATRIX,)]),
    Case("dst:n", lambda x: sf.dst(x, n=7, axis=0)[:4] + sf.idstn(x), [(MATRIX,)]),
    Case("dct:norm", lambda x: sf.dct(x, norm="none"), [], errors=[((LINE,), ValueError)]),
    Case("scipy_fft", lambda x: sf.fft(x, 7, norm="ortho") + sf.ifft(x, n=7) * sf.ihfft(x, 12), [(LINE,)], ops=("scipy_fft", "scipy_ifft")),
    Case("scipy_rfft", lambda x: sf.irfft(sf.rfft(x, axis=0) * 1j, 5, axis=0) + sf.hfft(x + 0j, 5, 0), [(MATRIX,)], ops=("scipy_rfft", "scipy_irfft")),
    Case("value_by:fftn", lambda x: sf.fftn(x) + sf.ifft2(x, (4, 3)), [(MATRIX,)]),
    Case("value_by:irfftn", lambda x: sf.irfftn(sf.rfftn(x, norm="forward"), (4, 3)) * sf.irfft2(sf.rfft2(x), (4, 3)), [(MATRIX,)]),
    # -- filters of images
    *[Case(f"correlate1d:{mode}", lambda x, w, how=(mode, origin): sn.correlate1d(x, w, 0, mode=how[0], cval=0.5, origin=how[1]),
           [(MATRIX, draw(3)), (LINE, draw(4))]) for mode, origin in (("reflect", 0), ("mirror", 1), ("nearest", -1), ("wrap", 0), ("constant", 1))],
    Case("correlate1d:convolve1d", lambda x, w: sn.convolve1d(x, w, mode="mirror") + sn.convolve1d(x, w[:2], origin=-1), [(MATRIX, draw(3))]),
    Case("correlate_image", lambda x, w: sn.correlate(x, w, mode="wrap") * sn.convolve(x, w, mode="nearest", origin=(0, -1)),
         [(MATRIX, draw(3, 2))]),
    Case("correlate_image:one_axis", lambda x, w: sn.correlate(x, w, axes=(0,)), [(MATRIX, draw(3))]),
    Case("correlate1d:gaussian", lambda x, s: sn.gaussian_filter(x, (s, 0.6), order=(0, 1), mode="nearest") + sn.gaussian_filter1d(x, s, 0, order=2, radius=2),
         [(MATRIX, 0.8)]),
    Case("correlate1d:gaussian_all", lambda x: sn.gaussian_filter(x, 0.7) + sn.gaussian_laplace(x, 0.7) + sn.gaussian_gradient_magnitude(x, 0.7), [(MATRIX,)]),
    Case("uniform_filter1d", lambda x: sn.uniform_filter(x, (2, 3), mode="wrap") + sn.uniform_filter1d(x, 3, 0, origin=1), [(MATRIX,)]),
    Case("correlate1d:slopes", lambda x: sn.sobel(x, 0) * sn.prewitt(x, mode="constant") + sn.laplace(x, mode="wrap"), [(MATRIX,)]),
    Case("correlate1d:origin", lambda x: sn.correlate1d(x, [1.0, 2.0], origin=2), [], errors=[((LINE,), ValueError)]),
    # -- recursive filters
    Case("lfilter", sg.lfilter, [(B, A, LINE), (B, 2.0 * A, MATRIX), (B[:2] + 1j, A, LINE + 0.5j), (draw(6), A, LINE[:3])]),
    Case("lfilter:axis", lambda b, a, x: sg.lfilter(b, a, x, axis=0), [(B, A, MATRIX), (B, A[:1], MATRIX)]),
    Case("lfilter:state", lambda b, a, x, z: sg.lfilter(b, a, x, zi=z), [(B, 2.0 * A, LINE, draw(2)), (B, A, LINE[:1], draw(2)), (B, A, MATRIX, draw(4, 2))]),
    Case("lfilter:zi", lambda b, a: sg.lfilter_zi(b, a), [(B, A), (B[:2], 2.0 * A)], ops=("solve",)),
    Case("lfilter:sections", lambda x: sg.sosfilt(SECTIONS, x, axis=0), [(MATRIX,), (LINE,)]),
    Case("lfilter:sections_state", lambda x, z: sg.sosfilt(SECTIONS, x, zi=z), [(LINE, draw(2, 2))]),
    Case("lfilter:both_ways", lambda b, a, x: sg.filtfilt(b, a, x, padlen=3) + sg.filtfilt(b, a, x, padtype="even", padlen=2), [(B, A, LINE), (B, A, draw(2, 6))]),
    Case("lfilter:both_ways_sections", lambda x: sg.sosfiltfilt(SECTIONS, x, padlen=3) + sg.sosfiltfilt(SECTIONS, x, padtype=None), [(draw(6),)]),
    Case("lfilter:short", lambda x: sg.filtfilt(B, A, x), [], errors=[((LINE,), ValueError)]),
    # -- distances
    distance("euclidean", "vector_norm"), distance("sqeuclidean", "sum"), distance("cityblock", "abs"), distance("minkowski", "vector_norm", p=2),
    distance("cosine", "sqrt"), distance("correlation", "sqrt"), distance("canberra", "where"), distance("braycurtis", "abs"),
    Case("max:chebyshev", lambda u, v: sd.chebyshev(np.real(u), np.real(v)) + np.sum(sd.cdist(np.real(np.stack([u, v])), np.real(np.stack([v * v, u * u])), "chebyshev")), [(draw(3), draw(3, seed=1))]),
    Case("sqrt:mahalanobis", lambda x, y: np.append(sd.cdist(x, y, "mahalanobis"), sd.pdist(x, "seuclidean")), [(draw(5, 2), draw(4, 2, seed=1))], ops=("sqrt",)),
    Case("sqrt:jensenshannon", lambda p, q: sd.jensenshannon(p, q, 2.0) + np.sum(sd.pdist(np.stack([p, q, p * q]), "js")), [(draw(3, low=0.2), draw(3, low=0.2, seed=1))]),
    Case("getitem:squareform", lambda x: sd.squareform(x) @ sd.squareform(sd.squareform(x * 2.0))[:3], [(draw(3),)], ops=("concat",)),
    Case("nearest_points", lambda x: KDTree(np.eye(3)).query(x, k=2)[0], [(draw(4, 3),), (draw(3),)]),
    Case("sum:pairs_by_a_function", lambda x: sd.pdist(x, lambda u, v: np.sum(np.abs(u - v) ** 3)) + np.sum(sd.cdist(x, x, lambda u, v: u @ v)), [(draw(3, 2),)]),
]
