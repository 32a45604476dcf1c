"""What bench.derivatives measures: of each problem what each tool computes, from one source where that is possible.

Each entry makes a tool's function, with what it compiles; its value is what all must agree on.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import torch

import tapegrad as tg
from bench.peers.autograd import rebound
from bench.problems import ba, ba_torch, gmm, gmm_torch, hand

Tool = Callable[[], Any]
Makers = dict[str, Callable[[], Tool]]
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(600, 26)), RNG.normal(size=600)
DATA, LABELS = RNG.normal(size=(500, 50)), np.sign(RNG.normal(size=500))
INPUTS, SHAPES = RNG.normal(size=(64, 20)), [(20, 32), (32, 32), (32, 1)]
EXAMPLES, TARGETS = RNG.normal(size=(256, 20)), RNG.normal(size=256)
SQUARE = RNG.normal(size=(100, 100)) / 10
ENDS = np.cumsum([0, *[m * n for m, n in SHAPES]])
JAX = importlib.util.find_spec("jax") is not None
ORDER, STEPS, SLOTS = 10, 10_000, 100
D, K, POINTS = 10, 5, 1000


def residuals(np: Any, a: Any, b: Any) -> Callable[[Any], Any]:
    """Return a model's 600 residuals as a function of its 26 parameters."""
    return lambda x: np.tanh(a @ x) * np.exp(-0.1 * (a @ x) ** 2) - b


def logistic(np: Any, data: Any, labels: Any) -> Callable[[Any], Any]:
    """Return the loss of a logistic regression as a function of its 50 weights."""
    return lambda w: np.log1p(np.exp(-(data @ w) * labels)).mean() + 0.01 * (w * w).sum()


def network(np: Any, inputs: Any) -> Callable[[Any], Any]:
    """Return the loss of a network with two hidden layers as a function of all of its weights."""
    def loss(w: Any) -> Any:
        h = inputs
        for shape, start, end in zip(SHAPES, ENDS, ENDS[1:]):
            h = np.tanh(h @ w[start:end].reshape(shape))
        return (h ** 2).mean()
    return loss


def mixed(np: Any, a: Any) -> Callable[[Any], Any]:
    """Return a function of 100 numbers to 100 numbers."""
    return lambda x: np.tanh(a @ np.sin(a @ x)) * x


def squared_error(np: Any) -> Callable[[Any, Any, Any], Any]:
    """Return what a network of two layers loses by one example."""
    return lambda w, x, t: (np.tanh(np.tanh(x @ w[0]) @ w[1]) @ w[2] - t) ** 2


def mixture(objective: Callable[..., Any], x: Any) -> Callable[[Any], Any]:
    """Return the likelihood of a Gaussian mixture as a function of all its parameters in one array."""
    def likelihood(p: Any) -> Any:
        return objective(p[:K], p[K:K + K * D].reshape(K, D), p[K + K * D:].reshape(K, -1), x, 1.0, 0)
    return likelihood


def pendulums(np: Any) -> Callable[[Any], Any]:
    """Return the slope of 50 coupled pendulums: the right side of an ordinary differential equation."""
    def slope(u: Any) -> Any:
        angle, speed = u[:50], u[50:]
        return np.concatenate([speed, -np.sin(angle) - 0.1 * speed * np.cos(angle) ** 2])
    return slope


def swing(np: Any) -> Callable[[Any, Any], Any]:
    """Return a step of a recurrence of 1,000 numbers."""
    return lambda x, rate: x - 1e-3 * rate * np.sin(x) * np.exp(-x * x)


def tensors(*arrays: Any) -> list[Any]:
    """Return arrays as tensors."""
    return [torch.tensor(x) for x in arrays]


def jax_modules() -> Any:
    """Return JAX, in double precision."""
    import jax
    jax.config.update("jax_enable_x64", True)
    return jax


def jitted(make: Callable[[Any, Any], Callable[..., Any]], *args: Any) -> Callable[[], Tool]:
    """Return how a function of JAX's is made, compiled and called; its value is waited for. It says itself how much
    memory it takes, which it does not give back.
    """
    def made() -> Tool:
        jax = jax_modules()
        compiled, given = jax.jit(make(jax, jax.numpy)), jax.tree_util.tree_map(jax.numpy.asarray, args)

        def call() -> Any:
            return jax.block_until_ready(compiled(*given))

        def memory() -> float:
            sizes = compiled.lower(*given).compile().memory_analysis()
            return float(sizes.temp_size_in_bytes + sizes.output_size_in_bytes)
        call.memory = memory  # type: ignore[attr-defined]
        return call
    return made


def jet(jax: Any, np: Any) -> Callable[[Any], Any]:
    """Return the coefficients of a power series by JAX's jets, whose are not divided by factorials."""
    from jax.experimental.jet import jet as series
    factorials = np.cumprod(np.arange(1.0, ORDER + 1))

    def coefficients(u: Any) -> Any:
        first = np.ones_like(u)
        y, found = series(pendulums(np), (u,), ([first, *[np.zeros_like(u)] * (ORDER - 1)],))
        return np.concatenate([y[None], np.stack(found) / factorials[:, None]])
    return coefficients


def bundle(path: Path | None) -> tuple[Makers, Tool]:
    """Return who computes the Jacobian of a bundle adjustment's residuals: 15 numbers in each row."""
    data = ba.make(49, 7776, 31843) if path is None else ba.read(path)
    camera, point = data["camera"], data["point"]
    args = data["cameras"], data["points"], data["weights"]

    def errors(cameras: Any, points: Any, weights: Any) -> Any:
        return weights[:, None] * (ba.project(cameras[camera], points[point]) - data["features"])

    def single(project: Callable[..., Any]) -> Callable[..., Any]:
        return lambda p, feature: p[14] * (project(p[None, :11], p[None, 11:14])[0] - feature)
    rows = np.concatenate([args[0][camera], args[1][point], args[2][:, None]], axis=1)
    t_rows, t_features = tensors(rows, data["features"])
    sparse = tg.sparse_jacobian(errors, argnums=(0, 1, 2))
    each = tg.compile(tg.vmap(tg.jacobian(single(ba.project), mode="forward")), warmup=1)
    found: Makers = {
        "tapegrad, sparse": lambda: lambda: sparse(*args),
        "tapegrad, each": lambda: lambda: each(rows, data["features"]),
        "torch.func": lambda: lambda: torch.func.vmap(
            torch.func.jacfwd(single(ba_torch.project)))(t_rows, t_features)}
    if JAX:
        found["jax"] = jitted(lambda jax, np: jax.vmap(jax.jacfwd(single(rebound(ba.project, np)))), rows,
                              data["features"])
    return found, lambda: errors(*args)


def tracked() -> tuple[Makers, Makers, Tool]:
    """Return who computes the Jacobian of hand tracking by columns, and by rows."""
    data = hand.make()
    theta, rest = data.pop("theta"), data
    names = list(rest)

    def of(np: Any, *arrays: Any) -> Callable[[Any], Any]:
        fn = rebound(hand.residuals, np)
        return lambda x: fn(x, **dict(zip(names, arrays)))
    f, boxed = of(np, *rest.values()), of(anp, *rest.values())
    t_theta, *t_rest = tensors(theta, *rest.values())
    tensor = of(torch, *t_rest)
    columns: Makers = {
        "tapegrad": lambda: (lambda jac: lambda: jac(theta))(tg.jacobian(f, mode="forward")),
        "torch.func": lambda: lambda: torch.func.jacfwd(tensor)(t_theta)}
    rows: Makers = {
        "tapegrad": lambda: (lambda jac: lambda: jac(theta))(tg.jacobian(f, mode="reverse")),
        "autograd": lambda: lambda: autograd.jacobian(boxed)(theta),
        "torch.func": lambda: lambda: torch.func.jacrev(tensor)(t_theta)}
    if JAX:
        columns["jax"] = jitted(lambda jax, np: jax.jacfwd(of(np, *rest.values())), theta)
        rows["jax"] = jitted(lambda jax, np: jax.jacrev(of(np, *rest.values())), theta)
    return columns, rows, lambda: f(theta)


def kept(size: int, steps: int, slots: int) -> tuple[str, Tool, Makers]:
    """Return who computes the gradient of a long recurrence of which few states are kept: so many, but for a block of
    steps that is computed again, by those who have no better schedule.
    """
    x, rate = RNG.normal(size=size), 0.5
    block = steps // slots
    loop = tg.checkpoint_loop(steps, slots=slots)(swing(np))

    def plain() -> Any:
        y = x
        for _ in range(steps):
            y = swing(np)(y, rate)
        return y.sum()

    def by_torch() -> Any:
        t = torch.tensor(x, requires_grad=True)

        def some(y: Any) -> Any:
            for _ in range(block):
                y = swing(torch)(y, rate)
            return y
        y = t
        for _ in range(slots):
            y = torch.utils.checkpoint.checkpoint(some, y, use_reentrant=False)
        return torch.autograd.grad(y.sum(), t)[0]

    def by_jax(jax: Any, np: Any) -> Any:
        def some(y: Any, _: Any) -> Any:
            return jax.lax.scan(lambda y, _: (swing(np)(y, rate), None), y, None, block)
        return jax.grad(lambda x: jax.lax.scan(jax.checkpoint(some), x, None, slots)[0].sum())
    found: Makers = {"tapegrad": lambda: lambda: tg.gradient(lambda x: loop(x, rate).sum(), x)[0],
                     "torch": lambda: by_torch}
    if JAX:
        found["jax"] = jitted(by_jax, x)
    return "value", plain, found


def rows(path: Path | None) -> dict[str, tuple[str, Tool, Makers]]:
    """Return for each problem what it is compared with, and what each tool computes."""
    x, w, n = 0.1 * RNG.normal(size=26), 0.1 * RNG.normal(size=50), 0.2 * RNG.normal(size=ENDS[-1])
    v, u, s = RNG.normal(size=n.shape), RNG.normal(size=100), RNG.normal(size=100)
    weights = [0.2 * RNG.normal(size=shape) for shape in ((20, 32), (32, 16), (16,))]
    tx, tw, tn, tv, tu = tensors(x, w, n, v, u)
    tweights, texamples, ttargets = tensors(*weights), *tensors(EXAMPLES, TARGETS)
    f, loss, net, error = residuals(np, A, B), logistic(np, DATA, LABELS), network(np, INPUTS), squared_error(np)
    boxed, tensor = residuals(anp, A, B), residuals(torch, *tensors(A, B))
    boxed_loss, tensor_loss = logistic(anp, DATA, LABELS), logistic(torch, *tensors(DATA, LABELS))
    boxed_net, tensor_net = network(anp, INPUTS), network(torch, *tensors(INPUTS))
    boxed_square, tensor_square = mixed(anp, SQUARE), mixed(torch, *tensors(SQUARE))
    drawn = gmm.make(D, K, POINTS)
    p = np.concatenate([drawn[name].ravel() for name in ("alphas", "means", "icf")])
    gauss, boxed_gauss = mixture(gmm.objective, drawn["x"]), mixture(rebound(gmm.objective, anp), drawn["x"])
    tp, tdrawn = tensors(p, drawn["x"])
    gradient = tg.value_and_grad(net, argnums=0)
    each = tg.compile(tg.vmap(tg.value_and_grad(error, 0), in_axes=(None, 0, 0)), warmup=1)
    series = tg.compile(lambda u: tg.taylor(pendulums(np), u, ORDER), warmup=1)
    columns, lines, tracks = tracked()
    blocks, seen = bundle(path)
    found: dict[str, tuple[str, Tool, Makers]] = {
        "Jacobian 100 x 100": ("value", lambda: mixed(np, SQUARE)(u), {
            "tapegrad": lambda: (lambda jac: lambda: jac(u))(tg.jacobian(mixed(np, SQUARE))),
            "tapegrad, once": lambda: lambda: tg.jacobian(mixed(np, SQUARE))(u),
            "autograd": lambda: lambda: autograd.jacobian(boxed_square)(u),
            "torch.func": lambda: lambda: torch.func.jacrev(tensor_square)(tu)}),
        "Jacobian 600 x 26, by columns": ("value", lambda: f(x), {
            "tapegrad": lambda: (lambda jac: lambda: jac(x))(tg.jacobian(f, mode="forward")),
            "tapegrad, once": lambda: lambda: tg.jacobian(f, mode="forward")(x),
            "torch.func": lambda: lambda: torch.func.jacfwd(tensor)(tx)}),
        "Jacobian 600 x 26, by rows": ("value", lambda: f(x), {
            "tapegrad": lambda: (lambda jac: lambda: jac(x))(tg.jacobian(f, mode="reverse")),
            "tapegrad, once": lambda: lambda: tg.jacobian(f, mode="reverse")(x),
            "autograd": lambda: lambda: autograd.jacobian(boxed)(x),
            "torch.func": lambda: lambda: torch.func.jacrev(tensor)(tx)}),
        "hand tracking 600 x 26, by columns": ("value", tracks, columns),
        "hand tracking 600 x 26, by rows": ("value", tracks, lines),
        "bundle adjustment 63,686 x 15": ("value", seen, blocks),
        "Hessian 50 x 50, logistic": ("value", lambda: loss(w), {
            "tapegrad": lambda: (lambda hess: lambda: hess(w))(tg.hessian(loss)),
            "tapegrad, once": lambda: lambda: tg.hessian(loss)(w),
            "autograd": lambda: lambda: autograd.hessian(boxed_loss)(w),
            "torch.func": lambda: lambda: torch.func.hessian(tensor_loss)(tw)}),
        f"Hessian {len(p)} x {len(p)}, mixture": ("value", lambda: gauss(p), {
            "tapegrad": lambda: (lambda hess: lambda: hess(p))(tg.hessian(gauss)),
            "autograd": lambda: lambda: autograd.hessian(boxed_gauss)(p),
            "torch.func": lambda: lambda: torch.func.hessian(mixture(gmm_torch.objective, tdrawn))(tp)}),
        "Hessian times vector, network": ("gradient", lambda: gradient(n)[1], {
            "tapegrad": lambda: (lambda along: lambda: along(n, v))(tg.hvp(net)),
            "autograd": lambda: (lambda along: lambda: along(n, v))(autograd.hessian_vector_product(boxed_net)),
            "torch.func": lambda: lambda: torch.func.jvp(torch.func.grad(tensor_net), (tn,), (tv,))[1]}),
        "gradients of 256 examples": ("value", lambda: error(weights, EXAMPLES, TARGETS), {
            "tapegrad": lambda: lambda: each(weights, EXAMPLES, TARGETS)[1][0],
            "tapegrad, once": lambda: lambda: tg.vmap(
                lambda w, x, t: tg.gradient(error, w, x, t)[0], in_axes=(None, 0, 0))(weights, EXAMPLES, TARGETS)[0],
            "torch.func": lambda: lambda: torch.func.vmap(
                torch.func.grad(squared_error(torch)), in_dims=(None, 0, 0))(tweights, texamples, ttargets)[0]}),
        f"Taylor, order {ORDER}, of a slope": ("value", lambda: pendulums(np)(s), {
            "tapegrad": lambda: lambda: series(s),
            "tapegrad, once": lambda: lambda: tg.taylor(pendulums(np), s, ORDER)}),
        f"gradient of {STEPS:,} steps, few kept": kept(1000, STEPS, SLOTS),
        "gradient of 500 steps of 30,000 numbers, few kept": kept(30_000, 500, 25),
    }
    if JAX:
        compiled: list[tuple[str, Callable[[Any, Any], Callable[..., Any]], tuple[Any, ...]]] = [
            ("Jacobian 100 x 100", lambda jax, np: jax.jacrev(mixed(np, SQUARE)), (u,)),
            ("Jacobian 600 x 26, by columns", lambda jax, np: jax.jacfwd(residuals(np, A, B)), (x,)),
            ("Jacobian 600 x 26, by rows", lambda jax, np: jax.jacrev(residuals(np, A, B)), (x,)),
            ("Hessian 50 x 50, logistic", lambda jax, np: jax.hessian(logistic(np, DATA, LABELS)), (w,)),
            (f"Hessian {len(p)} x {len(p)}, mixture",
             lambda jax, np: jax.hessian(mixture(rebound(gmm.objective, np), drawn["x"])), (p,)),
            ("Hessian times vector, network",
             lambda jax, np: lambda n, v: jax.jvp(jax.grad(network(np, INPUTS)), (n,), (v,))[1], (n, v)),
            ("gradients of 256 examples", lambda jax, np: lambda w, x, t: jax.vmap(
                jax.grad(squared_error(np)), in_axes=(None, 0, 0))(w, x, t)[0], (weights, EXAMPLES, TARGETS)),
            (f"Taylor, order {ORDER}, of a slope", jet, (s,)),
        ]
        for problem, make, args in compiled:
            found[problem][2]["jax"] = jitted(make, *args)
    return found
