"""Collectives of torch in traced programs, on each rank; see run_checks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.distributed.nn.functional as nnf

import tapegrad as tg
from tests.distributed.data_checks import raises

RANK, SIZE = tg.distributed.rank(), tg.distributed.size()
MEAN = dist.ReduceOp.AVG


def values(rank: int) -> torch.Tensor:
    return torch.linspace(0.5, 1.5, 2 * SIZE, dtype=torch.float64).reshape(SIZE, 2) * (rank + 1)


def all_reduced(x: Any) -> Any:
    y = x.sin()
    dist.all_reduce(y)
    return y


def in_a_view(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y[0])
    return y


def averaged(x: Any) -> Any:
    y = x.sin()
    handle = dist.all_reduce(y, op=MEAN, async_op=True)
    handle.wait()
    return y


def sent(x: Any) -> Any:
    y = x.sin()
    dist.broadcast(y, src=SIZE - 1)
    return y


def gathered(x: Any) -> Any:
    out = [torch.empty_like(x) for _ in range(SIZE)]
    dist.all_gather(out, x.sin())
    return torch.stack(out)


def gathered_into(x: Any) -> Any:
    out = x.new_zeros(SIZE * SIZE, 2)
    dist.all_gather_into_tensor(out, x.sin())
    return out.reshape(SIZE, SIZE, 2)


def scattered(x: Any) -> Any:
    out = torch.empty_like(x[:1])
    dist.reduce_scatter_tensor(out, x.sin())
    return out


def scattered_list(x: Any) -> Any:
    out = torch.empty_like(x[0])
    dist.reduce_scatter(out, list(x.sin()))
    return out[None]


def exchanged(x: Any) -> Any:
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x.sin())
    return out


Plain = Callable[[list[torch.Tensor], int], torch.Tensor]
CASES: list[tuple[Callable[..., Any], Plain]] = [
    (all_reduced, lambda xs, _: sum(x.sin() for x in xs)),  # type: ignore[arg-type, return-value]
    (in_a_view, lambda xs, r: torch.cat([sum(2 * x[:1] for x in xs), 2 * xs[r][1:]])),  # type: ignore[list-item]
    (averaged, lambda xs, _: sum(x.sin() for x in xs) / SIZE),  # type: ignore[return-value]
    (sent, lambda xs, _: xs[-1].sin()),
    (gathered, lambda xs, _: torch.stack([x.sin() for x in xs])),
    (gathered_into, lambda xs, _: torch.stack([x.sin() for x in xs])),
    (scattered, lambda xs, r: sum(x.sin() for x in xs)[r:r + 1]),  # type: ignore[index]
    (scattered_list, lambda xs, r: sum(x.sin() for x in xs)[r:r + 1]),  # type: ignore[index]
    (exchanged, lambda xs, r: torch.stack([x[r].sin() for x in xs])),
    (lambda x: fc.all_reduce(x.sin(), "sum", dist.group.WORLD), lambda xs, _: sum(x.sin() for x in xs)),  # type: ignore[return-value]
    (lambda x: fc.wait_tensor(fc.all_gather_tensor(x.sin(), 1, dist.group.WORLD)), lambda xs, _: torch.cat([x.sin() for x in xs], 1)),
    (lambda x: fc.reduce_scatter_tensor(x.sin(), "avg", 0, dist.group.WORLD), lambda xs, r: sum(x.sin() for x in xs)[r:r + 1] / SIZE),  # type: ignore[index]
    (lambda x: fc.broadcast(x.sin(), 0, dist.group.WORLD), lambda xs, _: xs[0].sin()),
    (lambda x: fc.all_to_all_single(x.sin(), None, None, dist.group.WORLD), lambda xs, r: torch.stack([x[r].sin() for x in xs])),
    (lambda x: nnf.all_reduce(x.sin()), lambda xs, _: sum(x.sin() for x in xs)),  # type: ignore[return-value]
    (lambda x: torch.stack(nnf.all_gather(x.sin())), lambda xs, _: torch.stack([x.sin() for x in xs])),
    (lambda x: nnf.broadcast(x.sin(), 0), lambda xs, _: xs[0].sin()),
    (lambda x: nnf.reduce(x.sin(), 0), lambda xs, r: sum(x.sin() for x in xs) * (r == 0)),  # type: ignore[operator]
    (lambda x: nnf.reduce_scatter(torch.empty_like(x[0]), list(x.sin()))[None], lambda xs, r: sum(x.sin() for x in xs)[r:r + 1]),  # type: ignore[index]
]


def check_gradients_of_the_sum_over_ranks() -> None:
    """Against torch's own gradient of all ranks' programs in one process; compiled, and of second order too."""
    for f, plain in CASES:
        def loss(x: Any, scale: float = 1.0, f: Any = f) -> Any:
            return ((RANK + 1.0) * scale * f(x) ** 3).sum()
        xs = [values(rank).requires_grad_() for rank in range(SIZE)]
        whole = sum(((rank + 1.0) * plain(xs, rank) ** 3).sum() for rank in range(SIZE))
        wanted = torch.autograd.grad(whole, xs, create_graph=True, allow_unused=True)  # type: ignore[arg-type]
        own = ((RANK + 1.0) * plain(xs, RANK) ** 3).sum()
        step = tg.value_and_grad(loss)
        for _ in range(4):
            value, dx = step(values(RANK))
            torch.testing.assert_close(value, own.detach())
            torch.testing.assert_close(dx, torch.zeros_like(xs[0]) if wanted[RANK] is None else wanted[RANK].detach())
        assert step.stats.hits == 2, step.explain()
        second = torch.autograd.grad(sum((dx ** 2).sum() for dx in wanted if dx is not None), xs, allow_unused=True)  # type: ignore[arg-type]
        found = tg.gradient(lambda x: (tg.gradient(loss, x)[0] ** 2).sum(), values(RANK))[0]
        torch.testing.assert_close(found, torch.zeros_like(xs[0]) if second[RANK] is None else second[RANK])


def check_tangents() -> None:
    for f, plain in CASES[:6]:
        xs = [values(rank) for rank in range(SIZE)]
        _, wanted = torch.func.jvp(lambda *xs, plain=plain: plain(list(xs), RANK), tuple(xs), tuple(x * x for x in xs))
        torch.testing.assert_close(tg.jvp(f, (values(RANK),), (values(RANK) ** 2,))[1], wanted)


def check_collectives_whose_result_is_not_used() -> None:
    """They are called all the same: other ranks wait for them, and these call them in another number."""
    def f(x: Any) -> Any:
        y, z = x * 1, x * 1
        dist.all_reduce(y)
        if RANK:
            dist.all_reduce(z)
            return (z * z).sum()
        dist.all_reduce(z)
        return (x * x).sum() + 0 * (z * z).sum()
    step = tg.value_and_grad(f)
    for _ in range(5):
        step(values(RANK))
    assert step.stats.hits


def check_results_that_one_rank_alone_uses() -> None:
    """The others send zeros where it sends its cotangent: of every order, forwards, compiled and through a checkpoint."""
    for f, plain in CASES:
        for user in (0, SIZE - 1):
            def loss(x: Any, f: Any = f, user: int = user) -> Any:
                y = f(x)
                return (y ** 3).sum() if user == RANK else x[0].sum() * 0.5
            xs = [values(rank).requires_grad_() for rank in range(SIZE)]
            whole = (plain(xs, user) ** 3).sum() + sum(x[0].sum() * 0.5 for rank, x in enumerate(xs) if rank != user)
            wanted = torch.autograd.grad(whole, xs, create_graph=True, allow_unused=True)
            first = torch.zeros_like(xs[0]) if wanted[RANK] is None else wanted[RANK].detach()
            step = tg.value_and_grad(loss)
            for _ in range(4):
                torch.testing.assert_close(step(values(RANK))[1], first)
            assert step.stats.hits == 2, step.explain()
            torch.testing.assert_close(tg.gradtape(loss, values(RANK)).play(values(RANK))[1][1], first)
            torch.testing.assert_close(tg.gradient(tg.checkpoint(loss), values(RANK))[0], first)
            second = torch.autograd.grad(sum((dx ** 2).sum() for dx in wanted if dx is not None), xs, allow_unused=True)  # type: ignore[arg-type]
            found = tg.gradient(lambda x, loss=loss: (tg.gradient(loss, x)[0] ** 2).sum(), values(RANK))[0]
            torch.testing.assert_close(found, torch.zeros_like(xs[0]) if second[RANK] is None else second[RANK])
            ts = tuple(values(rank) ** 2 for rank in range(SIZE))
            of_user = torch.func.jvp(lambda *xs, plain=plain, user=user: (plain(list(xs), user) ** 3).sum(), tuple(xs), ts)[1]
            torch.testing.assert_close(tg.jvp(loss, (values(RANK),), (ts[RANK],))[1],
                                       of_user.detach() if user == RANK else 0.5 * ts[RANK][0].sum())


def check_a_branch_after_an_exchange() -> None:
    """By which ranks go other ways: the path is traced in each call, since none may exchange twice."""
    def f(x: Any, limit: Any) -> Any:
        y = x * 1
        dist.all_reduce(y)
        if y.sum() * (1 + RANK) > limit:
            y = y * y
        dist.all_reduce(y)
        return (y * x).sum()

    def plain(xs: list[torch.Tensor], limit: float, r: int) -> torch.Tensor:
        y = sum(xs)
        return (sum(y * y if y.sum() * (1 + rank) > limit else y for rank in range(SIZE)) * xs[r]).sum()  # type: ignore[return-value, union-attr]
    step = tg.value_and_grad(f)
    xs = [values(rank).requires_grad_() for rank in range(SIZE)]
    sum_of_all = float(sum(xs).sum().detach())  # type: ignore[union-attr]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for limit in [0.0, 1.5 * sum_of_all, 9.0 * sum_of_all] * 3:
            value, dx = step(values(RANK), limit)
            torch.testing.assert_close(value, plain(xs, limit, RANK).detach())
            torch.testing.assert_close(dx, torch.autograd.grad(sum(plain(xs, limit, r) for r in range(SIZE)), xs[RANK])[0])  # type: ignore[arg-type]
    assert any("branches after it has exchanged numbers" in str(each.message) for each in caught) and not step.stats.hits


def check_a_compiled_call_that_does_not_fit() -> None:
    """It raises where it has exchanged numbers: traced anew, it would exchange them twice."""
    def f(x: Any) -> Any:
        y = x * 1
        dist.all_reduce(y)
        return y[y > 0].sum() * x.sum()
    step = tg.value_and_grad(f)
    for x in (values(RANK), values(RANK), values(RANK), values(RANK) * torch.tensor([1.0, -1.0])):
        try:
            value, _ = step(x)
        except tg.GuardError as err:
            assert "exchanged numbers with other processes" in str(err)
            return
        y = x * 1
        dist.all_reduce(y)
        torch.testing.assert_close(value, y[y > 0].sum() * x.sum())
    raise AssertionError("the last call fits")


class SumOfBoth(torch.autograd.Function):
    """The sum over ranks, whose gradient is one too."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:  # type: ignore[override]
        y = x.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:  # type: ignore[override]
        dx = dy.clone()
        dist.all_reduce(dx)
        return dx


class SumThatTorchKnows(SumOfBoth):
    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:  # type: ignore[override]
        return nnf.all_reduce(dy)


def check_collectives_in_a_backward_of_the_users() -> None:
    """Of dist.all_reduce torch has no gradient: a derivative of the backward, as a tangent is, is refused; nnf's has one."""
    def loss(x: Any, kind: Any) -> Any:
        return (kind.apply(x) ** 2).sum()
    x, total = values(RANK), sum(values(rank) for rank in range(SIZE))
    for kind in (SumOfBoth, SumThatTorchKnows):
        torch.testing.assert_close(tg.gradient(lambda x, kind=kind: loss(x, kind), x)[0], 2 * SIZE * total)
    with raises(tg.MissingRule, "no gradient of c10d::allreduce_, which SumOfBoth(?s:.*)torch.distributed.nn.functional"):
        tg.jvp(lambda x: loss(x, SumOfBoth), (x,), (x,))
    torch.testing.assert_close(tg.jvp(lambda x: loss(x, SumThatTorchKnows), (x,), (x,))[1], 2 * (total ** 2).sum())


def check_groups_checkpoints_and_compiling_at_once() -> None:
    pairs = [dist.new_group([2 * i, 2 * i + 1]) for i in range(SIZE // 2)]

    @tg.checkpoint
    def block(x: Any) -> Any:
        y = x.sin()
        dist.all_reduce(y, group=pairs[RANK // 2])
        return y
    mate = values(RANK ^ 1)
    for step in (tg.value_and_grad(lambda x: (block(x) ** 2).sum(), warmup=1), tg.value_and_grad(lambda x: (block(x) ** 2).sum())):
        for _ in range(4):
            _, dx = step(values(RANK))
            torch.testing.assert_close(dx, 4 * (values(RANK).sin() + mate.sin()) * values(RANK).cos())
        assert step.stats.hits >= 2, step.explain()


def check_what_is_refused() -> None:
    def largest(x: Any) -> Any:
        y = x * 1
        dist.all_reduce(y, op=dist.ReduceOp.MAX)
        return y.sum()

    def outside(x: Any) -> Any:
        dist.all_gather_into_tensor(OUT, x)
        return OUT.sum()

    def received(x: Any) -> Any:
        y = x * 1
        dist.send(y, 0)
        return y.sum()
    for f, kind, match in ((largest, tg.UnknownFunction, "op=.*MAX.*not linear"), (received, tg.UnknownFunction, "send cannot be recorded"),
                           (outside, tg.MutationError, "a tensor")):
        with raises(kind, match):
            tg.grad(f, values(RANK))


OUT = torch.zeros(SIZE * SIZE, 2, dtype=torch.float64)


def check_a_loop_like_that_of_ddp() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()

    def loss(model: Any, x: Any) -> Any:
        out = model(x).pow(2).sum()
        dist.all_reduce(out)
        return out / SIZE
    step = tg.value_and_grad(loss)
    for _ in range(4):
        value, gradients = step(model, values(RANK))
        whole = sum(model(values(rank)).pow(2).sum() for rank in range(SIZE))
        for (name, dp), (other, p) in zip(gradients.items(), model.named_parameters(), strict=True):
            assert name == other
            dist.all_reduce(dp)
            torch.testing.assert_close(dp, torch.autograd.grad(whole, p, retain_graph=True)[0])
        torch.testing.assert_close(value, whole.detach() / SIZE)
