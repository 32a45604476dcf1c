"""NumPy programs on DTensors, on each rank; see run_checks."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

import tapegrad as tg
from bench.problems import gmm
from tests.distributed.data_checks import RANK, SIZE, raises

S, C = Shard(0), Shard(1)
RNG = np.random.default_rng(0)
X, Y, Y_WIDE = RNG.standard_normal((11, 3)), RNG.standard_normal(11), RNG.standard_normal((11, 2))
W, V, U = RNG.standard_normal(3), RNG.standard_normal((3, 8)), RNG.standard_normal((8, 2))
MIXTURE = gmm.make(3, 4, 41)


def regression(w: Any, X: Any, y: Any) -> Any:
    e = np.tanh(X @ w) - y
    return np.mean(e * e)


def layers(V: Any, U: Any, X: Any, y: Any) -> Any:
    return np.sum((np.maximum(X @ V, 0) @ U - y) ** 2)


def softmax(V: Any, X: Any) -> Any:
    z = X @ V
    top = z.max(axis=1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(z - top), axis=1)) + top[:, 0])


def written(w: Any, X: Any, y: Any) -> Any:
    out = np.zeros(11)
    out[:] = X @ w
    out[1:] += y[1:]
    return np.sum(np.where(out > 0, out, 0.1 * out) ** 2)


def written_in_parts(w: Any, X: Any, y: Any) -> Any:
    z, wide = X @ w, X * w
    z[0] = 0.0
    z[1:3] = y[:2] * w[0]
    z[::2] *= 2
    part = z[4:]
    part *= 3
    wide[2], wide[:, 1] = y[:3], wide[:, 1] * w[1]
    return np.sum(z * z * y) + np.sum(wide ** 2 * y[:, None])


def branches(w: Any, X: Any) -> Any:
    total = np.sum(X @ w)
    return total * total if total > 0 else 3 * total


def solved(w: Any, X: Any, y: Any) -> Any:
    return np.sum(np.linalg.solve(X.T @ X + np.eye(3), X.T @ y) * w)


def steps(w: Any, X: Any) -> Any:
    total = 0.0
    for i in range(3):
        total = total + np.sum(X @ w * (i + 1)) * w[i]
    return total


def mixture(means: Any, x: Any) -> Any:
    return gmm.objective(MIXTURE["alphas"], means, MIXTURE["icf"], x, 1.0, 0)


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], Any, dict[str, Any]]] = [
    (regression, (W, X, Y), 0, {"X": S, "y": S}), (regression, (W, X, Y), (1, 0), {"X": S}), (regression, (W, X, Y), 0, {"X": C, "w": S}),
    (layers, (V, U, X, Y_WIDE), (0, 1), {"X": S, "y": S}), (layers, (V, U, X, Y_WIDE), (0, 1), {"V": C, "U": S}),
    (softmax, (V, X), 0, {"X": S}), (written, (W, X, Y), 0, {"X": S, "y": S}), (branches, (W, X), 0, {"X": S}),
    (written_in_parts, (W, X, Y), 0, {"X": S, "y": S}),
    (solved, (W, X, Y), 2, {"X": S, "y": S}), (steps, (W, X), 0, {"X": S}), (mixture, (MIXTURE["means"], MIXTURE["x"]), 0, {"x": S})]


def mesh() -> Any:
    return dist.device_mesh.init_device_mesh("cpu", (SIZE,))


def close(found: Any, wanted: Any) -> None:
    for a, b in zip(tg.tree.leaves(found), tg.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a.full_tensor() if isinstance(a, DTensor) else a, b, 1e-10, 1e-12)


def check_gradients_against_one_process() -> None:
    on = mesh()
    for f, args, argnums, placements in CASES:
        step = tg.value_and_grad(f, argnums, backend="torch", mesh=on, placements=placements)
        names, wanted = f.__code__.co_varnames, functools.cache(lambda scale, f=f, argnums=argnums, args=args: tg.value_and_grad(f, argnums)(scale * args[0], *args[1:]))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is computed in full by each process", UserWarning)
            for scale in (1.0, 1.0, 0.5, -1.0, -1.0, -1.0, 2.0):
                value, gradients = step(scale * args[0], *args[1:])
                close((value, gradients), wanted(scale))
                several = gradients if isinstance(argnums, tuple) else (gradients,)
                for number, gradient in zip(argnums if isinstance(argnums, tuple) else (argnums,), several):
                    assert gradient.placements == (placements.get(names[number], Replicate()),)
        assert step.stats.hits >= 3, (f.__name__, step.explain())


def check_what_is_sent() -> None:
    """Of sharded rows nothing is gathered: two sums, of the value and of the gradient. DTensor flattens even parts alone."""
    for f, args, placements in ((softmax, (V, X), {"X": S}), (layers, (V, U, X[:8], Y_WIDE[:8]), {"X": S, "y": S})):
        step = tg.value_and_grad(f, backend="torch", mesh=mesh(), placements=placements)
        for _ in range(3):
            with CommDebugMode() as sent:
                step(*args)
        counts = {str(name): count for name, count in sent.get_comm_counts().items()}
        assert counts == {"c10d_functional.all_reduce": 2}, counts


def check_bytes_sent_by_each_operation() -> None:
    """By a ring: of a sum twice what each has, less a part; of what is gathered what each has, to all others."""
    on, rows = mesh(), X[:8]
    given = [distribute_tensor(torch.from_numpy(x), on, [at], src_data_rank=None) for x, at in ((V, Replicate()), (rows, S))]
    found = tg.primitivize(tg.gradtape(softmax, V, rows)).profile(*given, repeats=2)
    assert sum(found.sent) == sum(cost.sent for cost in found.operations) == sum(cost.sent for cost in found.lines_of_source)
    step = tg.value_and_grad(softmax, backend="torch", mesh=on, placements={"X": S})
    found = step.profile(V, rows, repeats=2)
    sent = {cost.name: cost.sent for cost in found.operations if cost.sent}
    assert sum(sent.values()) == 2 * (SIZE - 1) * 8 * (1 + V.size) // SIZE, sent
    assert all(f" {text} " in str(found) for text in ("sent", *sent.values()))
    step(V, rows)  # goes on as it was
    gathers = tg.trace(lambda X: np.linalg.qr(X.T @ X)[1] + X[:3] * 0, rows)[1].profile(given[1], repeats=1)
    assert sum(gathers.sent) > 0 and not tg.trace(np.sin, rows)[1].profile(repeats=1).sent


def check_nested_parameters_aux_and_dtensors() -> None:
    def f(p: Any, X: Any) -> Any:
        out = np.tanh(X @ p["w"]) * p["scale"]
        return np.sum(out ** 2), np.mean(out)
    on = mesh()
    params = {"w": W, "scale": 2.0, "name": "tanh"}
    (wanted, mean), by = tg.value_and_grad(f, has_aux=True)(params, X)
    step = tg.value_and_grad(f, has_aux=True, backend="torch", mesh=on, placements={"X": S})
    spread = distribute_tensor(torch.from_numpy(X), on, [S])
    for given in (X, X, X, spread, torch.from_numpy(X), spread):
        (value, aux), gradient = step(params, X=given)
        close((value, aux, gradient["w"], float(gradient["scale"])), (wanted, mean, by["w"], by["scale"]))
        assert gradient["name"] is None


def check_what_is_told() -> None:
    on = mesh()
    for f, reason in ((written, "setitem is computed in full by each process, from gathered arguments: it writes to a tensor"),
                      (lambda w, X, y: np.sum((X * w).reshape(-1) ** 2) + y[0], "is computed in full by each process, from gathered arguments: DTensor raised")):
        step = tg.value_and_grad(f, backend="torch", mesh=on, placements={"X": S})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            for _ in range(4):
                step(W, X, Y)
        told = [str(each.message) for each in caught if "computed in full" in str(each.message)]
        assert any(reason in each for each in told), told
        assert len(told) == len({each.split()[0] for each in told})
    for options, match in (({"placements": {"Z": S}}, "placements= names Z, which regression does not have"), ({"argnums": None}, "argnums must name"),
                           ({"placements": {"X": (S, S)}}, "2 placements for a mesh of 1"), ({"backend": "numpy"}, "mesh= is for torch tensors"),
                           ({"mode": "graph"}, "no mode 'graph'")):
        with raises(tg.ArgumentError, match):
            tg.value_and_grad(regression, **{"backend": "torch", "mesh": on, **options})


def check_tensor_parallel_layers_of_torch() -> None:
    """Columns, then rows of two layers on each rank, and torch's own collective between."""
    part = slice(8 * RANK // SIZE, 8 * (RANK + 1) // SIZE)

    def f(v: Any, u: Any, x: Any, y: Any) -> Any:
        out = torch.relu(x @ v) @ u
        dist.all_reduce(out)
        return ((out - y) ** 2).sum() / SIZE
    step = tg.value_and_grad(f, (0, 1))
    value, (dV, dU) = tg.value_and_grad(layers, (0, 1))(V, U, X, Y_WIDE)
    for _ in range(4):
        found, (dv, du) = step(*map(torch.from_numpy, (V[:, part].copy(), U[part].copy(), X, Y_WIDE)))
        close((found * SIZE, dv, du), (value, dV[:, part], dU[part]))


# -- modules of torch that hold DTensors


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = torch.nn.Embedding(8, 8), torch.nn.LayerNorm(8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        return x + self.down(torch.tanh(self.up(self.norm(x))))


PLANS: list[dict[str, Any]] = [
    {"up": ColwiseParallel(), "down": RowwiseParallel()},
    {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()},
    {"embed": RowwiseParallel(input_layouts=Replicate()), "up": ColwiseParallel(), "down": RowwiseParallel()},
    {"embed": ColwiseParallel(output_layouts=Replicate()), "up": RowwiseParallel(input_layouts=Replicate()), "down": ColwiseParallel(output_layouts=Replicate())},
    {"embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=S), "norm": SequenceParallel(sequence_dim=0),
     "up": ColwiseParallel(input_layouts=S), "down": RowwiseParallel(output_layouts=S)}]


def check_modules_that_hold_dtensors() -> None:
    """Gradients are those of torch's own backward, and lie as the parameters do."""
    tokens = torch.arange(8)
    for plan in PLANS:
        torch.manual_seed(0)
        module = parallelize_module(Block().double(), mesh(), plan)

        def loss(module: Any, tokens: Any) -> Any:
            return module(tokens).pow(3).sum()
        loss(module, tokens).backward()
        step = tg.value_and_grad(loss)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*and other processes may wait for it", tg.RetraceWarning)
            for _ in range(4):
                value, gradients = step(module, tokens)
        assert not step.stats.hits  # traced in each call
        torch.testing.assert_close(value, loss(module, tokens).detach())
        for name, p in module.named_parameters():
            found = gradients[name]
            assert type(found) is type(p.data), (name, type(found))
            if isinstance(found, DTensor):
                assert found.placements == p.placements, (name, found.placements)
                found, wanted = found.full_tensor(), p.grad.full_tensor()
            else:
                wanted = p.grad
            torch.testing.assert_close(found, wanted)


def check_programs_on_dtensors() -> None:
    on = mesh()

    def loss(w: Any, X: Any) -> Any:
        return (torch.tanh(X @ w) ** 2).mean()

    def by_parts(w: Any, X: Any) -> Any:
        local = (X * w.redistribute(placements=[Replicate()])).to_local()
        y = DTensor.from_local(local.sin(), on, X.placements)
        return (y.full_tensor() ** 2).sum() + w.sum().full_tensor()
    for f in (loss, by_parts):
        for placements in ((Replicate(), S), (Replicate(), Replicate()), (S, C)):
            w, x = torch.from_numpy(np.tile(W, 4)), torch.from_numpy(RNG.standard_normal((8, 12)))
            given = [distribute_tensor(w, on, [placements[0]]), distribute_tensor(x, on, [placements[1]])]
            value, gradients = tg.grad(f, *given)
            roots = [w.requires_grad_(), x.requires_grad_()]
            plain = loss(w, x) if f is loss else ((x * w).sin() ** 2).sum() + w.sum()
            for found, a, wanted in zip(gradients[1:], given, torch.autograd.grad(plain, roots), strict=True):
                assert found.placements == a.placements
                torch.testing.assert_close(found.full_tensor(), wanted)
            torch.testing.assert_close(value.full_tensor() if isinstance(value, DTensor) else value, plain.detach())
