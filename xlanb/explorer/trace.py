"""Trace: a compilation as a list of stages. Every view reads this, whoever did the compiling."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from difflib import unified_diff

from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.explorer.lineage import Lineage, Provenance
from xlanb.explorer.stage import Stage
from xlanb.hlo.records import ModuleRecord
from xlanb.tracing import Decision


class Trace(Displayable):
    """The stages of one compilation, in order; grows while the compilation is live.

    `trace[7]` is a stage by position, `trace["fusion"]` the last stage of that name. `runs` holds the wall seconds of each execution so far, the latest ones.
    """

    def __init__(self, name: str, stages: Sequence[Stage] = ()) -> None:
        self.name = name
        self.stages: list[Stage] = list(stages)
        self.runs: deque[float] = deque(maxlen=10_000)

    def __len__(self) -> int:
        return len(self.stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __getitem__(self, key: int | str) -> Stage:
        """A stage by position or by name.

        Raises:
            XlanbError: there is none of that name; the message lists the names.
            IndexError: the position is out of range.
        """
        if isinstance(key, int):
            return self.stages[key]
        found = next((s for s in reversed(self.stages) if key in {s.name, s.kind}), None)
        if found is None:
            raise XlanbError(
                f"no stage {key!r} in trace {self.name!r}; it has: {', '.join(dict.fromkeys(s.name for s in self.stages))}"
            )
        return found

    @property
    def changed(self) -> list[Stage]:
        """The stages that changed something."""
        return [s for s in self.stages if s.changed]

    def diff(self, a: int | str, b: int | str) -> str:
        """Unified diff of the HLO text (or other text) after stage `a` and after stage `b`."""
        left, right = self[a], self[b]
        texts = [
            str(s.after).splitlines()
            if isinstance(s.after, ModuleRecord)
            else str(getattr(s.after, "text", s.after)).splitlines()
            for s in (left, right)
        ]
        return "\n".join(unified_diff(texts[0], texts[1], left.name, right.name, lineterm=""))

    def why(self, *subject: str) -> list[Decision]:
        """Every recorded decision about these instructions or nodes (all of them must take part), in order."""
        wanted = {s.removeprefix("%") for s in subject}
        return [d for s in self.stages for d in s.decisions if wanted <= set(d.subject)]

    def lineage(self, name: str) -> Lineage:
        """Where an instruction (or a TensorFlow node) came from, and what became of it.

        Raises:
            XlanbError: there is no HLO in the trace, or nothing of that name.
        """
        return Provenance(self.stages).lineage(name)

    @property
    def coverage(self) -> float:
        """Share of the final instructions whose TensorFlow node (or op name) is known, 0 to 1."""
        return Provenance(self.stages).coverage()

    def to_html(self, path: str) -> None:
        """Write the step view as one self-contained page that works from disk with no network."""
        from importlib import import_module

        import_module("xlanb.view.page").write_page([self], path)

    def __str__(self) -> str:
        from importlib import import_module

        text: str = import_module("xlanb.view.text").trace_text(self)
        return text

    def __repr__(self) -> str:
        return f"<Trace {self.name}: {len(self)} stages, {len(self.changed)} changed>"
