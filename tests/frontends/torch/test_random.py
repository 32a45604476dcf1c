"""torch's random numbers in traced code: those of torch under the same seed, drawn afresh by a replay, the same again in a pullback."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributions as D
import torch.nn.functional as F

import tapegrad as tg
from tapegrad.frontends.torch import random
from tapegrad.transforms.flat_gradient import flatgrad

X = torch.linspace(0.1, 0.9, 12).reshape(3, 4)
PLAIN = torch.full((4,), 0.5)
OWN = torch.Generator()



PROGRAMS: dict[str, Any] = {
    "rand": lambda x: (torch.rand(4) * x).sum(),
    "randn": lambda x: (torch.randn(3, 4) * x).sum(),
    "randint": lambda x: (torch.randint(9, (4,)) * x).sum(),
    "randperm": lambda x: (x[:, torch.randperm(4)] * x).sum(),
    "normal": lambda x: (torch.normal(0.0, 1.0, (4,)) * x).sum() + torch.normal(x, 1.0).square().sum(),
    "bernoulli": lambda x: (torch.bernoulli(x) * x).sum(),
    "multinomial": lambda x: x[0, torch.multinomial(x[0], 3)].square().sum(),
    "poisson": lambda x: (torch.poisson(x * 5) * x).sum(),
    "like": lambda x: ((torch.rand_like(x) + torch.randn_like(x) + torch.randint_like(x, 7)) * x).sum(),
    "of what is not traced": lambda x: ((torch.bernoulli(PLAIN) + PLAIN.bernoulli() + torch.rand_like(PLAIN) + torch.normal(PLAIN, 1.0) + F.dropout(PLAIN)) * x).sum(),
    "multinomial of what is not traced": lambda x: x[0, PLAIN.multinomial(2)].square().sum(),
    "normal_": lambda x: (torch.empty(4).normal_() * x).sum(),
    "uniform_": lambda x: (torch.empty(4).uniform_(1, 2) * x).sum(),
    "random_": lambda x: (torch.zeros(4).random_(9) * x).sum(),
    "exponential_": lambda x: (torch.zeros(4).exponential_() * x).sum(),
    "cauchy_": lambda x: (torch.zeros(4).cauchy_() * x).sum(),
    "log_normal_": lambda x: (torch.zeros(4).log_normal_() * x).sum(),
    "geometric_": lambda x: (torch.zeros(4).geometric_(0.4) * x).sum(),
    "bernoulli_": lambda x: ((torch.zeros(9, 4).bernoulli_() + torch.zeros(9, 4).bernoulli_(0.3) + torch.zeros(9, 4).bernoulli_(x[0])) * x[0]).sum(),
    "over an input": lambda x: (x.clone().normal_() * x).sum(),
    "dropout": lambda x: F.dropout(x).sum() + F.dropout(x * 2, inplace=True).square().sum(),
    "dropout of channels": lambda x: F.dropout1d(x.expand(4, 3, 4)).sum() + F.dropout2d(x.expand(4, 3, 3, 4)).square().sum(),
    "alpha_dropout": lambda x: F.alpha_dropout(x, training=True).sum() + F.feature_alpha_dropout(x, training=True).square().sum(),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True).square().sum(),
    "gumbel_softmax": lambda x: ((F.gumbel_softmax(x) + F.gumbel_softmax(x, hard=True)) * x).sum(),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.3).square().sum(),
    "a layer made in the program": lambda x: torch.nn.Linear(4, 2)(x).square().sum(),
    "init": lambda x: (torch.nn.init.kaiming_uniform_(torch.empty(4, 4)) @ x.T).sum(),
    "Normal": lambda x: D.Normal(x, x + 1).rsample((5,)).square().sum(),
    "MultivariateNormal": lambda x: D.MultivariateNormal(x[0], torch.eye(4) * (1 + x[1])).rsample().square().sum(),
    "Gamma": lambda x: (D.Gamma(x, x + 1).rsample() * x).sum(),
    "Beta": lambda x: (D.Beta(x, x + 1).rsample() * x).sum(),
    "Dirichlet": lambda x: (D.Dirichlet(x).rsample() * x).sum(),
    "StudentT": lambda x: (D.StudentT(x + 2).rsample() * x).sum(),
    "Laplace": lambda x: (D.Laplace(x, x + 1).rsample() * x).sum(),
    "Gumbel": lambda x: (D.Gumbel(x, x + 1).rsample() * x).sum(),
    "Categorical": lambda x: D.Categorical(x).log_prob(D.Categorical(torch.ones(9, 3, 4)).sample()).sum(),
    "Poisson": lambda x: D.Poisson(x * 9).log_prob(D.Poisson(torch.full((3, 4), 5.0)).sample()).sum(),
    "RelaxedBernoulli": lambda x: (D.RelaxedBernoulli(torch.tensor(0.5), probs=x).rsample() * x).sum(),
    "generator=": lambda x: (torch.randn(4, generator=OWN) * x).sum() + (torch.bernoulli(x, generator=OWN) * x).sum(),
    "generator= in place": lambda x: (torch.empty(4).normal_(generator=OWN) * x * torch.rand(4)).sum() + x[0, torch.randperm(4, generator=OWN)].sum(),
    "float of what is drawn": lambda x: (torch.rand(4) * x).sum() * (torch.rand(()) + 1).item(),
}


def seed() -> None:
    torch.manual_seed(1)
    OWN.manual_seed(5)


def states() -> tuple[Any, Any]:
    return torch.get_rng_state(), OWN.get_state()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_draw_is_torchs_and_a_replay_draws_afresh(name: str) -> None:
    f = PROGRAMS[name]
    seed()
    y = f(root := X.clone().requires_grad_())
    (wanted,) = torch.autograd.grad(y, root)
    left = states()
    seed()
    value, (_, dx) = tg.grad(f, X)
    torch.testing.assert_close(value, y.detach())
    torch.testing.assert_close(dx, wanted)
    assert all(map(torch.equal, states(), left))  # the program's generators have moved on as without a trace
    seed()
    primal = tg.trace(f, X)[1]
    seed()
    for tape in (tg.gradtape(f, X), flatgrad(primal)):
        value, (_, dx) = tape.play(X, redraw=False)
        torch.testing.assert_close(value, y.detach())
        torch.testing.assert_close(dx, wanted)
    assert len({float(primal.play(X)) for _ in range(12)}) > 1


def test_the_pullback_sees_what_the_call_drew() -> None:
    def f(x: Any) -> Any:  # linear in x
        return (F.dropout(x, 0.5) * torch.randn(4)).sum() + (torch.empty(4).normal_(generator=OWN) * x).sum()
    for tape in (tg.gradtape(f, X), flatgrad(tg.trace(f, X)[1])):
        for _ in range(4):
            value, (_, dx) = tape.play(X)
            torch.testing.assert_close((dx * X).sum(), value)


def test_a_replay_is_reproducible_by_the_seed() -> None:
    tape = tg.trace(PROGRAMS["generator= in place"], X)[1]
    seed()
    first = tape.play(X)
    seed()
    assert torch.equal(tape.play(X), first) and not torch.equal(tape.play(X), first)


def test_what_the_program_seeds_itself_is_the_same_in_every_replay() -> None:
    def f(x: Any) -> Any:
        torch.manual_seed(7)
        return (torch.rand(4) * x).sum() + (torch.randn(4) * x).sum()
    value, tape = tg.trace(f, X)
    torch.manual_seed(3)
    assert torch.equal(tape.play(X), value) and torch.equal(f(X), value)


def test_a_draw_into_a_tensor_made_outside_is_refused() -> None:
    with pytest.raises(tg.MutationError, match="draws random numbers into"):
        tg.trace(lambda x: (HELD[0].normal_() * x).sum(), X)


HELD = [torch.zeros(4)]  # a global, which is no input


def test_a_gradient_of_a_gradient_sees_the_same_draw() -> None:
    def f(x: Any) -> Any:
        return (F.dropout(x, 0.5) ** 3).sum()
    torch.manual_seed(1)
    (dx,) = torch.autograd.grad(f(root := X.clone().requires_grad_()), root, create_graph=True)
    (wanted,) = torch.autograd.grad(dx.square().sum(), root)
    torch.manual_seed(1)
    (found,) = tg.gradient(lambda x: tg.gradient(f, x)[0].square().sum(), X)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_compiled_draws_without_tracing_again(name: str) -> None:
    f = PROGRAMS[name]
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    torch.rand(1, generator=OWN)  # of one that was seeded, and has not drawn, it is not clear who has seeded it
    for _ in range(3):
        step(X)
    for _ in range(2):
        seed()
        wanted, left = [f(X) for _ in range(3)], states()
        seed()
        torch.testing.assert_close([step(X)[0] for _ in range(3)], wanted)  # torch's own stream
        assert all(map(torch.equal, states(), left))
    assert step.stats.traces <= 2


FIXED = torch.Generator()


def made_inside(x: Any) -> Any:
    generator = torch.Generator().manual_seed(3)
    return (torch.rand(4, generator=generator) * torch.randn(4, generator=generator) * x).sum()


def seeded_inside(x: Any) -> Any:
    FIXED.manual_seed(3)
    return (torch.rand(4, generator=FIXED) * x).sum()


def seeded_torch(x: Any) -> Any:
    torch.manual_seed(7)
    return (torch.rand(4) * x).sum()


def forked(x: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        a = torch.rand(4)
    return (a * torch.rand(4) * x).sum()


def drawn_and_dropped(x: Any) -> Any:
    torch.rand(5)
    F.dropout(x)
    return (torch.rand(4) * x).sum()


def on_a_branch(x: Any) -> Any:
    u = torch.rand(4)
    return (u * x).sum() if u.sum() > 2 else (u * x * x).sum()


def from_elsewhere(x: Any) -> Any:
    return (torch.rand(4, generator=FIXED) * x).sum()


@pytest.mark.filterwarnings("ignore:(seeded_inside|seeded_torch|forked) is not compiled:tapegrad.RetraceWarning")
@pytest.mark.parametrize("maker", [tg.compile, tg.value_and_grad])
@pytest.mark.parametrize("f", [made_inside, seeded_inside, seeded_torch, forked, drawn_and_dropped, on_a_branch, from_elsewhere])
def test_what_is_compiled_draws_torchs_own_stream(f: Any, maker: Any) -> None:
    def run(fn: Any) -> list[float]:
        values = []
        for i in range(8):
            if i in (0, 6):
                torch.manual_seed(7)
                FIXED.manual_seed(3)
            y = fn(X)
            values += [float(y[0] if fn is not f and maker is tg.value_and_grad else y), float(torch.rand(()))]
        return values
    assert run(maker(f, backend="torch")) == pytest.approx(run(f), rel=1e-6)


def test_a_state_of_the_cpu_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws there are of a seed made of the state: the same again for a pullback, others in the next replay."""
    own = [torch.zeros(16, dtype=torch.uint8)]

    class Generator(torch.Generator):
        def __new__(cls, device: Any) -> Any:
            return super().__new__(cls)

        def manual_seed(self, seed: int) -> Any:
            self.seed_state = torch.tensor(list(seed.to_bytes(16, "little")), dtype=torch.uint8)
            return self

        def get_state(self) -> Any:
            return self.seed_state
    monkeypatch.setattr(torch, "Generator", Generator)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: own[0])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda value, device: own.__setitem__(0, value))
    monkeypatch.setattr(random, "device_name", lambda args: "cuda:0")
    run = random.seeded(lambda: own[0].tolist())
    seen = []
    for _ in range(5):
        begin = random.state("cpu")
        seen.append(run(begin))
        assert run(begin) == seen[-1]
    assert len({tuple(x) for x in seen}) == 5 and not own[0].any()  # and the device's own generator is where it was
