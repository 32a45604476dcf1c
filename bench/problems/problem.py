"""Problem: an objective and its data, the same for every peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Size = dict[str, int]
Data = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """An objective, a real scalar of plain NumPy, and where its data come from.

    `make(**default, seed=)` draws data of a given size, `read(path)` reads a published file, called `file` in its
    folder, and `size_of` says how large data are: data are the objective's arguments by name. `wrt` names those to
    differentiate by. `tolerance` is the relative difference that two peers' gradients may have. `behind` says
    why tapegrad's compiled tape is slower than another peer, where it is, and what would close the gap.

    A problem in another form (bench/problems/forms.py) is differentiated by its peers as `program` gives it: `other`
    computes what the objective does, `form` puts the data inside the function. Gradients by hand stay those of the
    objective.

    The objective of a problem with a `module` is torch code, `objective` in the module `<module>_torch` beside it:
    `arguments(data)` there makes what it takes, a torch.nn.Module with the parameters `wrt` first, and tensors. What
    the problem itself has computes its value from the data.

    A problem with a `sweep` can be measured at each of its sizes too, on request at the size `million`
    as well, by `sweep_peers`.
    """

    name: str
    objective: Callable[..., Any]
    wrt: tuple[str, ...]
    make: Callable[..., Data]
    default: Size
    size_of: Callable[[Data], Size]
    read: Callable[[Path], Data] | None = None
    file: str = ""
    tolerance: float = 1e-10
    behind: str = ""
    sweep: tuple[Size, ...] = ()
    million: Size | None = None
    sweep_peers: tuple[str, ...] = ()
    repeats: int = 15
    module: bool = False
    other: Callable[..., Any] | None = None
    form: Callable[[Problem, Callable[..., Any]], Callable[..., Any]] | None = None
    data: Data = field(default_factory=dict)
    source: str = ""

    def made(self, **size: int) -> Problem:
        """Return the problem with data of a size, the default one where nothing is said; always the same data."""
        return replace(self, data=self.make(**{**self.default, **size}, seed=0), source="made")

    def loaded(self, path: Path) -> Problem:
        """Return the problem with the data of a file."""
        if self.read is None:
            raise ValueError(f"{self.name} reads no file")
        return replace(self, data=self.read(path), source=path.name)

    def found(self, folder: Path | None, size: Size) -> Problem:
        """Return the problem with the published data of a folder if it has them, with made data
        otherwise; `folder` may be a file.
        """
        if folder is None or size or self.read is None:
            return self.made(**size)
        path = folder / self.file if folder.is_dir() else folder
        return self.loaded(path) if path.is_file() else self.made()

    @property
    def size(self) -> Size:
        """How large the data are."""
        return self.size_of(self.data)

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments to differentiate by, the objective's first."""
        return tuple(self.data[name] for name in self.wrt)

    @property
    def given(self) -> Data:
        """The other arguments, which every peer passes by keyword and holds constant."""
        return {name: value for name, value in self.data.items() if name not in self.wrt}

    @property
    def varied(self) -> bool:
        """Whether it is another form of a problem."""
        return self.other is not None or self.form is not None

    def program(self, changed: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda f: f
                ) -> tuple[Callable[..., Any], Data]:
        """Return the function to differentiate by `args`, and its other arguments; `changed` is applied to the source.
        """
        f = changed(self.other or self.objective)
        return (f, self.given) if self.form is None else (self.form(self, f), {})
