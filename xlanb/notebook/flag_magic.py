"""`%xla_flags`: the flags in force, shown or set for the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_magic, magics_class

from xlanb.debug_options import DebugOptions, current, parse_flags, set_for_session
from xlanb.display import Displayable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FlagsInForce(Displayable):
    """Flags with their values and meanings."""

    options: DebugOptions

    @property
    def table(self) -> pd.DataFrame:
        """One row a flag: name, value, default, meaning."""
        import pandas as pd

        rows = [
            (f"--{f.name}", getattr(self.options, f.name), f.default, f.metadata["meaning"])
            for f in fields(DebugOptions)
        ]
        return pd.DataFrame(rows, columns=["flag", "value", "default", "meaning"])

    @property
    def changed(self) -> Sequence[str]:
        """The flags that are not at their defaults, as text."""
        return [
            f"--{f.name}={_text(getattr(self.options, f.name))}"
            for f in fields(DebugOptions)
            if getattr(self.options, f.name) != f.default
        ]

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """The tables for a notebook."""
        return (("flags in force", self.table),)

    def __str__(self) -> str:
        return " ".join(self.changed) or "all flags have their default values"


@magics_class
class FlagMagics(Magics):
    """The line magic on flags."""

    @line_magic
    def xla_flags(self, line: str) -> Any:
        """%xla_flags [--name=value ...] [reset]

        Show the flags in force, or set some of them for the session, as in XLA_FLAGS and
        TF_XLA_FLAGS (names of 2017 and 2018 are accepted too); `reset` restores the environment's.
        """
        __tracebackhide__ = True
        words = line.split()
        if "reset" in words:
            set_for_session(None)
            words.remove("reset")
        if words:
            # Names complete without the dashes, which are added.
            flags = [w if w.startswith("-") else f"--{w}" for w in words]
            set_for_session(parse_flags(" ".join(flags), current()))
        return FlagsInForce(current())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
