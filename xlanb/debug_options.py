"""DebugOptions: the flags of XLA_FLAGS and TF_XLA_FLAGS that xlanb obeys, as one frozen value.

`current()` is the value in force: the environment's, changed by `flags(...)` blocks around. A block changes only its own context and never
the environment, for the real XLA aborts on flags that it does not know.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from xlanb.errors import FlagError

ENVIRONMENT = ("XLA_FLAGS", "TF_XLA_FLAGS", "XLANB_FLAGS")


@dataclass(frozen=True, slots=True)
class DebugOptions:
    """Every flag by its name; defaults are those of XLA and of TensorFlow.

    `tf_xla_auto_jit`: 0 clusters nothing unless a session asks, 1 and 2 cluster what can be compiled. `tf_xla_min_cluster_size` and `tf_xla_max_cluster_size` count
    operations. `tf_xla_ops_to_cluster` names op types or shortcuts (FUSIBLE, PW, RED, ...), the only ones that are clustered; `tf_xla_clustering_fuel` is how many nodes may
    be. `xla_disable_hlo_passes` names HLO passes to leave out, `xla_enable_hlo_passes_only` the only ones to run. Compiled code of another `xlanb_generation` is
    not used again: another number compiles everything anew.
    """

    tf_xla_auto_jit: int = 0
    tf_xla_cpu_global_jit: bool = False
    tf_xla_min_cluster_size: int = 4
    tf_xla_max_cluster_size: int = 2**31 - 1
    tf_xla_ops_to_cluster: tuple[str, ...] = ()
    tf_xla_cluster_exclude_ops: tuple[str, ...] = ()
    tf_xla_clustering_fuel: int = 2**63 - 1
    tf_xla_clustering_debug: bool = False
    tf_xla_deterministic_cluster_names: bool = False
    tf_xla_enable_lazy_compilation: bool = True
    tf_xla_disable_deadness_safety_checks_for_debugging: bool = False
    tf_xla_disable_resource_variable_safety_checks_for_debugging: bool = False
    xla_disable_hlo_passes: tuple[str, ...] = ()
    xla_enable_hlo_passes_only: tuple[str, ...] = ()
    xla_cpu_multi_thread_eigen: bool = True
    xla_hlo_profile: bool = False
    xlanb_generation: int = 0


def parse_flags(text: str, base: DebugOptions | None = None) -> DebugOptions:
    """Options from `--name=value` words; `--flag` alone means true, and a later word wins.

    Raises:
        FlagError: a name is unknown (the message gives the nearest one) or a value does not fit.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise FlagError(f"flags cannot be read: {error}: {text!r}") from None
    values: dict[str, Any] = {}
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            raise FlagError(f"flag {word!r} does not start with --")
        values[name] = _value(name, value if "=" in word else "true")
    return replace(base or DebugOptions(), **values)


def _value(name: str, text: str) -> Any:
    known = {f.name: f.default for f in fields(DebugOptions)}
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise FlagError(f"unknown flag --{name}" + (f"; did you mean --{near[0]}?" if near else ""))
    default = known[name]
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "1", "0"):
            raise FlagError(f"--{name} takes true or false, not {text!r}")
        return text.lower() in ("true", "1")
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise FlagError(f"--{name} takes an integer, not {text!r}") from None
    return tuple(filter(None, text.split(",")))


@cache
def _of_environment(texts: tuple[str, ...]) -> DebugOptions:
    options = DebugOptions()
    for variable, text in zip(ENVIRONMENT, texts, strict=True):
        known = {f.name for f in fields(DebugOptions)}
        # The real XLA reads XLA_FLAGS and TF_XLA_FLAGS too: flags that are only its own are none of our business.
        words = (
            text.split()
            if variable == "XLANB_FLAGS"
            else [w for w in text.split() if w.lstrip("-").partition("=")[0] in known]
        )
        options = parse_flags(" ".join(words), options)
    return options


_CURRENT: ContextVar[DebugOptions | None] = ContextVar("xlanb_debug_options", default=None)


def current() -> DebugOptions:
    """The options in force.

    Raises:
        FlagError: the environment holds a bad flag.
    """
    return _CURRENT.get() or _of_environment(tuple(os.environ.get(v, "") for v in ENVIRONMENT))


@contextmanager
def flags(text: str = "", **values: Any) -> Iterator[DebugOptions]:
    """Change flags within a block: `with xlanb.flags("--xla_disable_hlo_passes=fusion"):` or by keyword.

    Raises:
        FlagError: a name is unknown or a value does not fit.
    """
    for name, value in values.items():
        _value(name, ",".join(value) if isinstance(value, tuple) else str(value))
    options = replace(parse_flags(text, current()), **values)
    token = _CURRENT.set(options)
    try:
        yield options
    finally:
        _CURRENT.reset(token)
