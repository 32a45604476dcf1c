"""Modules are traced as they are, and their gradients are named as their parameters."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import tapegrad as tg
from tapegrad.testing import check_grads

torch.manual_seed(0)
X = torch.randn(2, 3)


def loss(m: Any, x: Any) -> Any:
    return m(x).square().mean()


def check(module: Any, x: Any = X, loss: Any = loss, replay: bool = True, extra: tuple[str, ...] = ()) -> Any:
    """Check the gradient, that the module is as a call leaves it, and what the gradient tape gives for another one of its kind."""
    wanted, called = reference(module, x, loss), copy.deepcopy(module)
    before = snapshot(module), snapshot(called)
    torch.manual_seed(3)
    with torch.no_grad():
        loss(called, x)
    torch.manual_seed(3)
    value, (_, gradients, *_) = tg.grad(loss, module, x)
    torch.testing.assert_close(value, wanted[0])
    assert list(gradients) == [*(name for name, _ in module.named_parameters()), *extra]
    for name, dp in wanted[1].items():
        torch.testing.assert_close(gradients[name], dp)
    assert written(before[0], module) == written(before[1], called) and all(p.grad is None for p in module.parameters())
    if replay:
        tape, other = tg.gradtape(loss, copy.deepcopy(module), x).check(), copy.deepcopy(module)
        with torch.no_grad():
            for p in other.parameters():
                p.mul_(0.5)
        for each in (module, other):
            wanted = reference(each, x, loss)
            value, (_, gradients, *_) = tape.play(each, x)
            torch.testing.assert_close(value, wanted[0])
            for name, dp in wanted[1].items():
                torch.testing.assert_close(gradients[name], dp)
    return gradients


def reference(module: Any, x: Any, loss: Any) -> tuple[Any, dict[str, Any]]:
    """Return the value and the gradients by loss.backward(), on a copy."""
    module = copy.deepcopy(module)
    torch.manual_seed(3)
    value = loss(module, x)
    value.backward()
    return value.detach(), {name: p.grad for name, p in module.named_parameters()}


def snapshot(module: Any) -> list[tuple[int, str, str]]:
    """Return all that a module holds, as text."""
    return [(i, name, repr(value)) for i, part in enumerate(module.modules()) for name, value in vars(part).items()]


def written(before: list[tuple[int, str, str]], module: Any) -> list[tuple[int, str, str]]:
    """Return what a module holds that is not what it held."""
    return [part for part in snapshot(module) if part not in before]


class Block(nn.Module):
    """A transformer's block."""

    def __init__(self, d: int = 16) -> None:
        super().__init__()
        self.ln, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, 4, batch_first=True, dropout=0.1)
        self.mlp = nn.Sequential(nn.Linear(d, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, d))

    def forward(self, x: Any) -> Any:
        h = self.ln(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class Recurrent(nn.Module):
    """An LSTM over an embedding, with one matrix for both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.out = nn.Embedding(10, 8), nn.LSTM(8, 8, 2, batch_first=True), nn.Linear(8, 10)
        self.out.weight = self.embedding.weight

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(self.embedding(x))[0])


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.named = nn.ModuleDict({"x": nn.Linear(3, 3)})
        self.vectors = nn.ParameterList([torch.randn(3) for _ in range(2)])
        self.more = nn.ParameterDict({"u": nn.Parameter(torch.randn(3))})

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        for vector in self.vectors:
            x = self.named["x"](x) * vector
        return x + self.more["u"]


class Hooked(nn.Module):
    """Its hook is a method of its own, which needs a parameter and changes a list."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(3, 3), nn.Parameter(torch.randn(3))
        self.seen: list[Any] = []
        self.linear.register_forward_hook(self.hook)

    def hook(self, module: Any, args: Any, y: Any) -> Any:
        self.seen.append(y)
        return y * self.scale

    def forward(self, x: Any) -> Any:
        return self.linear(x)


class Settings:
    """No module, but holds what one would."""

    def __init__(self) -> None:
        self.w, self.depth, self.inner = nn.Parameter(torch.randn(3)), 2, nn.Linear(3, 3)


class Holding(nn.Module):
    """Keeps tensors wherever it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.settings, self.plain = nn.Linear(3, 3), Settings(), torch.randn(3)
        self.lists, self.dicts, self.hidden = [torch.randn(3), 2], {"a": (torch.randn(3),)}, [nn.Linear(3, 3)]
        self.trained = torch.randn(3).requires_grad_()

    def forward(self, x: Any) -> Any:
        for _ in range(self.settings.depth):
            x = self.linear(x) * self.settings.w
        return self.hidden[0](x) * self.plain + self.settings.inner(x) * self.lists[0] * self.lists[1] + self.dicts["a"][0] * self.trained


class Counting(nn.Module):
    """Changes itself as it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.step, self.log, self.last = nn.Linear(3, 3), 0, [], None
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("moved", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.step += 1
        self.last = self.linear(x)
        self.log.append(self.last.mean())
        with torch.no_grad():
            self.mean.mul_(0.9).add_(self.last.mean(0), alpha=0.1)
        self.moved = 0.5 * self.moved + self.last.mean(0).detach()
        return (self.last - self.mean) * self.step - self.moved


class Asking(nn.Module):
    """Asks after its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.frozen = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False)

    def forward(self, x: Any) -> Any:
        assert all(isinstance(p, nn.Parameter) for p in self.parameters())
        assert self.linear.weight.requires_grad and not self.frozen.weight.requires_grad
        size = nn.utils.parameters_to_vector(self.parameters()).square().sum()
        return self.frozen(self.linear(x)) * size + sum(value.sum() for value in self.state_dict().values())


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).transpose(-1, -2)


def symmetric() -> Any:
    module = nn.Linear(3, 3)
    parametrize.register_parametrization(module, "weight", Symmetric())
    return module


def with_hooks() -> Any:
    """Hooks that change what goes in and out, one of which has captured a module."""
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[0].register_forward_hook(lambda m, args, y: y * module[1].bias)
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    return module


def tied() -> Any:
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    module[2].weight = module[0].weight
    return module


MODULES: dict[str, Callable[[], Any]] = {
    "containers": Containers, "asking": Asking, "counting": Counting, "tied": tied, "frozen": lambda: tied().requires_grad_(False),
    "weight_norm": lambda: parametrizations.weight_norm(nn.Linear(3, 4)), "spectral_norm": lambda: parametrizations.spectral_norm(nn.Linear(3, 4)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(3, 3)), "symmetric": symmetric,
    "compiled": lambda: torch.compile(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), backend="eager"),
}


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0")  # torch.compile's
@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_the_gradients_of_torch(name: str) -> None:
    module = MODULES[name]()
    if name == "frozen":
        module[0].bias.requires_grad_(True)
    check(module, replay=name not in ("asking", "compiled", "spectral_norm"))


@pytest.mark.quick
def test_a_transformer_block() -> None:
    check(Block(), torch.randn(2, 5, 16), replay=False)


def test_a_recurrent_network_with_tied_weights() -> None:
    check(Recurrent(), torch.randint(0, 10, (2, 6)), lambda m, x: F.cross_entropy(m(x).flatten(0, 1), x.flatten()))


def test_a_packed_sequence() -> None:
    lengths = torch.tensor([4, 2])

    def packed(m: Any, x: Any) -> Any:
        y = m(pack_padded_sequence(x, lengths, batch_first=True))[0]
        return pad_packed_sequence(y, batch_first=True)[0].square().mean()
    check(nn.LSTM(3, 4, batch_first=True), torch.randn(2, 4, 3), packed)
    check(nn.LSTM(3, 4), pack_padded_sequence(torch.randn(4, 2, 3), lengths), lambda m, x: m(x)[0].data.square().mean())


@pytest.mark.parametrize("make", [Hooked, with_hooks])
def test_hooks_of_the_module_s_own_are_part_of_it(make: Any) -> None:
    module = make()
    wanted = torch.autograd.grad(loss(module, X), list(module.parameters()))
    vars(module).update(seen=[])
    _, (_, gradients, _) = tg.grad(loss, module, X)
    for dp, found in zip(wanted, gradients.values()):
        torch.testing.assert_close(found, dp)
    assert len(module.seen) == (make is Hooked)


def test_what_a_module_keeps_elsewhere_has_its_gradient_and_is_read_anew_by_a_replay() -> None:
    module = Holding()
    extra = {"hidden[0].weight": module.hidden[0].weight, "hidden[0].bias": module.hidden[0].bias, "settings.w": module.settings.w,
             "settings.inner.weight": module.settings.inner.weight, "settings.inner.bias": module.settings.inner.bias, "trained": module.trained}
    gradients = check(module, extra=tuple(extra), replay=False)
    wanted = torch.autograd.grad(loss(module, X), list(extra.values()))
    for name, dx in zip(extra, wanted):
        torch.testing.assert_close(gradients[name], dx)
    tape, other = tg.gradtape(loss, module, X), copy.deepcopy(module)
    other.plain.mul_(2)
    other.lists[0].mul_(3)
    with torch.no_grad():
        other.settings.w.mul_(4)
    torch.testing.assert_close(tape.play(other, X)[0], loss(other, X).detach())


def test_the_new_buffers_are_there_for_a_program_that_returns_them() -> None:
    def with_buffers(m: Any, x: Any) -> Any:
        return loss(m, x), dict(m.named_buffers())
    module, x = Counting(), torch.randn(5, 3)
    wanted = copy.deepcopy(module)
    loss(wanted, x).backward()
    (_, buffers), (_, gradients, _) = tg.grad(with_buffers, module, x, seed=(1.0, None))
    for name, value in wanted.named_buffers():
        torch.testing.assert_close(getattr(module, name), value)
        torch.testing.assert_close(buffers[name], value)
    for name, p in wanted.named_parameters():
        torch.testing.assert_close(gradients[name], p.grad)


def test_frozen_parameters_and_buffers_have_no_gradient_and_no_operation() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module[0].weight.requires_grad_(False)
    _, (_, gradients, _) = tg.grad(lambda m, x: m(x).sum(), module, X)
    assert gradients["0.weight"] is None and gradients["0.bias"].shape == (4,)
    tape = tg.gradtape(lambda m, x: m(x).sum(), module, X)
    assert not any("0.weight" in op.note or "detach" in repr(op) or "stop_gradient" in repr(op) for op in tape)
    _, (_, gradients, _) = tg.flatgrad(tg.trace(lambda m, x: m(x).sum(), module, X)[1]).play(module, X)
    assert gradients["0.weight"] is None and gradients["0.bias"].shape == (4,)
    assert tg.grad(lambda m, x: m(x).sum(), nn.Tanh(), X)[1][1] == {}


@pytest.mark.parametrize("f", [lambda m: m, lambda m: m.forward, lambda m: lambda x: m(x), lambda m: partial(m.forward)],
                         ids=["callable", "bound method", "closure", "partial"])
def test_a_module_may_be_the_function_or_be_captured(f: Any) -> None:
    module = nn.Linear(3, 2)
    _, (df, dx) = tg.grad(f(module), X, seed=torch.ones(2, 2))
    while set(df) != {"weight", "bias"}:
        (df,) = df.values()
    torch.testing.assert_close(df["weight"], X.sum(0).expand(2, 3))
    torch.testing.assert_close(dx, module.weight.detach().sum(0).expand(2, 3))


def test_modules_and_parameters_that_are_shared_have_the_whole_gradient_everywhere() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
            self.head, self.parameters = self.model[1], list(self.model.parameters())

        def loss(self, x: Any) -> Any:
            return (self.model(x) + self.head(x)).square().sum() + sum(p.square().sum() for p in self.parameters)
    trainer = Trainer()
    trainer.loss(X).backward()
    _, (found, _) = tg.grad(trainer.loss, X)
    torch.testing.assert_close(found.model["1.weight"], trainer.head.weight.grad)
    torch.testing.assert_close(found.head["weight"], trainer.head.weight.grad)
    torch.testing.assert_close(found.parameters[2], trainer.head.weight.grad)


def test_the_same_module_twice_is_two_arguments() -> None:
    module = tied()
    module[0].bias.requires_grad_(False)
    _, (_, first, second, _) = tg.grad(lambda a, b, x: (a(x) * b(x).detach()).sum(), module, module, X)
    assert first["0.weight"].any() and not second["0.weight"].any() and first["0.bias"] is None


def test_a_gradient_inside_a_gradient() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    module[0].bias.requires_grad_(False)

    def squares(m: Any, x: Any) -> Any:
        _, (_, gradients, _) = tg.grad(loss, m, x)
        assert gradients["0.bias"] is None
        return gradients["0.weight"].square().sum()
    _, (_, found, _) = tg.grad(squares, module, X)
    (dw,) = torch.autograd.grad(loss(module, X), module[0].weight, create_graph=True)
    torch.testing.assert_close(found["0.weight"], torch.autograd.grad(dw.square().sum(), module[0].weight)[0])


def test_what_is_compiled_runs_as_it_was_written() -> None:
    compiled = torch.compile(lambda x: x.sin().sum(), backend="eager")
    for f in (compiled, lambda x: compiled(x) * 1):
        torch.testing.assert_close(tg.gradient(f, X)[0], X.cos())
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    module.compile(backend="eager")
    wanted = torch.autograd.grad(loss(module, X), module[0].weight)[0]
    torch.testing.assert_close(tg.grad(loss, module, X)[1][1]["0.weight"], wanted)
    torch.testing.assert_close(compiled(X), X.sin().sum())  # the compiler is on again


# -- what a tape holds for


def test_a_tape_is_of_modules_of_one_kind() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.LSTM(3, 2))
    tape = tg.trace(lambda m, x: m(x)[0].sum(), module, X)[1]
    tape.play(copy.deepcopy(module), X)
    others: list[Callable[[Any], Any]] = [
        lambda m: m.eval(), lambda m: m[1].eval(), lambda m: setattr(m[1], "p", 0.1), lambda m: m.append(nn.Tanh()),
        lambda m: m[0].register_forward_hook(lambda module, args, y: y), lambda m: setattr(m[0], "bias", None),
        lambda m: setattr(m[0], "tensor", torch.ones(3)), lambda m: setattr(m[0], "sizes", [1]),
        lambda m: setattr(m[2], "weight_hh_l0", nn.Parameter(m[2].weight_hh_l0.detach()))]
    for change in others[:-1]:
        other = copy.deepcopy(module)
        change(other)
        with pytest.raises(tg.ArgumentError, match="nesting of the arguments"):
            tape.play(other, X)
    other = copy.deepcopy(module)
    others[-1](other)
    tape.play(other, X)
    module.eval()  # the very module that it was recorded with
    with pytest.raises(tg.ArgumentError, match=r"m\.training was True, and is False"):
        tape.play(module, X)



@pytest.mark.parametrize("compiled", [partial(tg.value_and_grad, argnums=None), lambda f, **_: partial(tg.grad, f)])
def test_a_parameter_that_is_frozen_or_thawed_between_calls(compiled: Any) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    step = compiled(loss, backend="torch")
    for frozen in (True, True, False, False, True):
        module[0].weight.requires_grad_(not frozen)
        _, (_, gradients, _) = step(module, X)
        assert (gradients["0.weight"] is None) is frozen and gradients["1.weight"].any()
    tape = tg.gradtape(loss, module, X)
    with pytest.raises(tg.ArgumentError, match=r"0\.weight was held constant, and is now trained"):
        tape.play(module.requires_grad_(True), X)


def test_a_part_of_a_parameter_goes_into_a_function_of_torch_s_own() -> None:
    """What a compiled program takes of a parameter requires a gradient as it does, and is on no tape of torch's."""
    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.u = nn.Parameter(torch.randn(2, 4, 3)), nn.Parameter(torch.randn(2, 4, 4))

        def forward(self, x: Any) -> Any:
            h = x.new_zeros(len(x), 4)
            for w, u in zip(self.w, self.u):
                h = torch.rnn_tanh_cell(x, h, w, u)
            return h
    module, step = Cells(), tg.value_and_grad(loss, argnums=None, backend="torch")
    x = X.clone().requires_grad_()
    wanted = torch.autograd.grad(loss(module, x), [module.w, module.u, x])
    for _ in range(3):
        _, (_, gradients, dx) = step(module, x)
        for found, dp in zip((*gradients.values(), dx), wanted):
            torch.testing.assert_close(found, dp)
    assert step.stats.traces == 1


@pytest.mark.parametrize("change, message", [
    (lambda m: nn.LazyLinear(2), "lazy LazyLinear has no shape yet"),
    (lambda m: torch.jit.script(m), "compiled by torch.jit"),
    (lambda m: m.register_full_backward_hook(lambda module, dx, dy: None) and m, "backward hook"),
    (lambda m: m.weight.register_hook(lambda dw: 2 * dw) and m, "m.weight has a hook"),
    (lambda m: m.weight.register_post_accumulate_grad_hook(lambda p: None) and m, "m.weight has a hook"),
], ids=["lazy", "script", "backward hook", "hook of a parameter", "hook behind a gradient"])
def test_what_would_have_another_gradient_is_refused(change: Any, message: str) -> None:
    with pytest.raises(tg.ArgumentError, match=message):
        tg.grad(loss, change(nn.Linear(3, 2)), X)


def test_a_tensor_with_a_hook_is_refused_as_an_argument() -> None:
    x, w = X.clone().requires_grad_(), X.clone().requires_grad_()
    x.register_hook(lambda dx: 2 * dx)
    w.register_post_accumulate_grad_hook(lambda w: None)
    with pytest.raises(tg.ArgumentError, match="x has a hook"):
        tg.grad(lambda x: (x * x).sum(), x)
    with pytest.raises(tg.ArgumentError, match="w has a hook"):
        tg.grad(lambda x: (x * w).sum(), X)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: [x], lambda x: x.detach().to_sparse().requires_grad_()])
def test_a_hook_that_comes_after_compilation_is_refused_too(make: Any) -> None:
    def loss(x: Any) -> Any:
        return ((x[0] if type(x) is list else x) @ torch.ones(X.shape[1], 2, dtype=X.dtype)).sum()
    compiled = tg.value_and_grad(loss, argnums=None, backend="torch", warmup=1)
    given = make(X.clone().requires_grad_())
    for _ in range(3):
        compiled(given)
    (given[0] if type(given) is list else given).register_hook(lambda dx: 2 * dx)
    with pytest.raises(tg.ArgumentError, match="has a hook"):
        compiled(given)


def hooked(x: Any) -> Any:
    y = torch.sin(x)
    y.register_hook(lambda dy: 3 * dy)
    return (y**2).sum() + y.sum()


def clamped(x: Any) -> Any:
    x.register_hook(lambda dx: dx.clamp(-1, 1))
    return (x**3).sum()


def hooked_and_written_to(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda dy: dy * x.detach())
    y.mul_(x)
    return (y**2).sum()


def hooked_in_turn(x: Any) -> Any:
    y = torch.sin(x)
    y.register_hook(lambda dy: dy * x.detach())
    y.register_hook(lambda dy: None)
    y.register_hook(lambda dy: dy ** 3)
    return (y**2).sum()


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")  # a hook that calls torch may draw
@pytest.mark.parametrize("f", [hooked, clamped, hooked_and_written_to, hooked_in_turn])
def test_a_hook_of_a_tensor_inside(f: Any) -> None:
    root = X.clone().requires_grad_()
    expected, = torch.autograd.grad(f(root), root)
    step = tg.value_and_grad(f, 0, backend="torch", warmup=1)
    for dx in (tg.gradient(f, X)[0], step(X)[1], step(X)[1], step(X)[1]):
        torch.testing.assert_close(dx, expected)


@pytest.mark.parametrize(("register", "match"), [
    (lambda y: y[1:].register_hook(torch.sin), "of a view"), (lambda y: (y.sum(), y.register_hook(torch.sin)), "has been used before"),
    (lambda y: y.register_hook(torch.sin).remove(), "removing")])
def test_a_hook_that_would_see_another_gradient_is_refused(register: Any, match: str) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        register(y)
        return y.sum()
    with pytest.raises(tg.UnknownFunction, match=match):
        tg.grad(f, X)


# -- what else a tape can do


def test_every_view_of_a_tape_with_a_module(tmp_path: Path) -> None:
    module = nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 3), nn.GELU())
    module[1].bias.requires_grad_(False)
    module.register_buffer("scale", torch.ones(3))
    _, primal = tg.trace(loss, module, X)
    assert "input m.1.weight" in primal.format() and "input m.scale" in primal.format()
    for tape in (primal, tg.gradtape(loss, module, X), tg.flatgrad(primal)):
        for format in ("table", "compact", "tree", "summary", *(["mirror"] if tape is not primal else [])):
            tape.show(format, file=io.StringIO(), width=150)
        for kind in ("nan", "inf", "large"):
            assert tape.find(kind) is None and tape.find(kind, module, X) is None
        assert str(tape.step(module, X)) and str(tape.profile(module, X)) and str(tape.profile())
        assert tape.to_networkx() and tape.to_dot() and tape.to_svg() and tape.to_html() and tape._repr_html_() and tape.diff(tape) is not None
        torch.testing.assert_close(tg.optimise(tape).play(module, X), tape.play(module, X))
        with pytest.raises(tg.TapeFormatError, match=r"torch\.nn\.Module|a function of torch's"):
            tape.save(tmp_path / "module.tape")
        with pytest.raises(tg.ArgumentError, match="cannot be written as source"):
            tape.to_python()
    found = tg.explain(loss, module, X)
    assert {x.label for x in found.gradients} == {"m.0.weight", "m.0.bias", "m.1.weight", "x"}
    with pytest.raises(tg.ArgumentError, match="gradcheck"):
        check_grads(loss, module, X)
