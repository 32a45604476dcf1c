"""elsewhere: names known from JAX, autograd, torch or Zygote, and tapegrad's equivalents."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

NAMES = {
    "jit": "tg.compile(f)",
    "grad_and_value": "tg.value_and_grad(f)",
    "jacobian_and_value": "tg.value_and_jacobian(f)",
    "elementwise_grad": "tg.forwarddiff(f), or tg.gradient(lambda x: f(x).sum(), x)",
    "multigrad": "tg.gradient(f, x, y)",
    "jacobian_fwd": "tg.jacfwd(f)",
    "hessian_vector_product": "tg.hvp(f)",
    "make_hvp": "tg.hvp(f)",
    "make_vjp": "tg.vjp(f, *args)",
    "make_jvp": "tg.jvp(f, args, tangents)",
    "vector_jacobian_product": "tg.vjp(f, *args)",
    "jacobian_vector_product": "tg.jvp(f, args, tangents)",
    "withgradient": "tg.value_and_grad(f)",
    "custom_vjp": "a rule: @tg.rrule(f)",
    "custom_gradient": "a rule: @tg.rrule(f)",
    "defvjp": "a rule: @tg.rrule(f)",
    "defjvp": "a rule: @tg.frule(f)",
    "custom_jvp": "a rule: @tg.frule(f)",
    "Function": "a rule: @tg.rrule(f)",
    "remat": "tg.checkpoint(f)",
    "make_jaxpr": "tg.trace(f, *args), which returns the value and the tape",
    "jaxpr": "tg.trace(f, *args), which returns the value and the tape",
    "no_grad": "tg.stop_gradient(x), for each value to treat as constant",
    "detach": "tg.stop_gradient(x)",
    "lax": "plain Python: loops, branches and NumPy functions are traced as they are",
    "scan": "a Python loop: loops are traced as they are, and rolled",
    "cond": "a Python branch: branches are traced as they are",
    "numpy": "NumPy itself: import numpy as np",
    "np": "NumPy itself: import numpy as np",
    "scipy": "SciPy itself: import scipy",
    "nn": "torch's modules: tg.value_and_grad(loss)(module, x)",
    "tree_map": "tg.tree.map(fn, x, y)",
    "tree_leaves": "tg.tree.leaves(x)",
    "tree_util": "tg.tree, with map, leaves and ravel",
    "ravel_pytree": "tg.tree.ravel(x)",
    "flatten_util": "tg.tree.ravel(x)",
    "minimize": "an optimiser of another library, scipy.optimize.minimize(tg.value_and_grad(f), x, jac=True)",
    "optim": "an optimiser of another library, or tg.tree.map(lambda p, g: p - rate * g, params, gradients)",
    "optimizers": "an optimiser of another library, or tg.tree.map(lambda p, g: p - rate * g, params, gradients)",
    "adam": "an optimiser of another library, or tg.tree.map(lambda p, g: p - rate * g, params, gradients)",
    "tensor": "NumPy's arrays, or torch's tensors: both are traced as they are",
    "array": "NumPy's arrays, or torch's tensors: both are traced as they are",
    "requires_grad": "argnums=, which says by which arguments tg.grad and tg.value_and_grad differentiate",
    "random": "NumPy's or torch's own random numbers, which are recorded as they are",
    "vectorize": "tg.vmap(f), or np.vectorize(f), which is traced as it is",
    "debug_nans": "tg.raise_on_nan(), a context",
    "set_detect_anomaly": "tg.raise_on_nan(), a context",
    "config": "no setting: tg.raise_on_nan() is a context, and precision follows NumPy's dtypes",
    "check": "tg.check_grads(f, *args), or `tapegrad check`; tape.check() tests whether a tape is well-formed",
    "pmap": "tg.distributed.value_and_grad(f, batch=...)",
    "pjit": "tg.value_and_grad(f, backend=\"torch\", mesh=..., placements=...)",
    "backward": "tg.grad(f, *args), which returns the gradients",
    "gradcheck": "tg.check_grads(f, *args)",
    "test_util": "tg.check_grads(f, *args), and tapegrad.testing",
    "device_put": "backend=\"torch\", device=...",
}


def told(name: str, names: Sequence[str]) -> str:
    """Return the end of the message for a missing name: tapegrad's equivalent, or the closest public name.

    >>> told("jit", [])
    '; here it is tg.compile(f)'
    >>> told("hesian", ["hessian", "grad"])
    "; did you mean 'hessian'?"
    """
    if name in NAMES:
        return f"; here it is {NAMES[name]}"
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
