"""DebugOptions: the flags of XLA_FLAGS and TF_XLA_FLAGS that xlanb implements, as a frozen value.

`current()` returns the options in force: the environment's, changed by enclosing `flags(...)`
blocks. A block changes only its own context, never the environment, because the real XLA aborts on
unknown flags. Flags that only xlanb has are read from XLANB_FLAGS. Flag names of 2017 and 2018 are
accepted as aliases of today's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, field, fields, replace
from functools import cache
from typing import Any

from xlanb.contexts import bound
from xlanb.errors import FlagError, close_names
from xlanb.lazy_dataclass import dataclass

ENVIRONMENT = ("XLA_FLAGS", "TF_XLA_FLAGS", "XLANB_FLAGS")
GRAPH_PREFIX_VARIABLE = "TF_DUMP_GRAPH_PREFIX"
_CLOSE = 0.85
"""The difflib ratio from which one name counts as a misspelling of another."""


def _flag(default: Any, meaning: str) -> Any:
    """Declare a flag: its default and, for the documentation, its meaning."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True, slots=True)
class DebugOptions:
    """Every flag by its name, with its meaning; defaults are those of XLA and TensorFlow.

    Change `xlanb_generation` to compile everything anew: compiled code is only reused within one
    generation.
    """

    tf_xla_auto_jit: int = _flag(0, "0: no clustering unless a session requests it; 1 and 2: cluster compilable ops")
    tf_xla_cpu_global_jit: bool = _flag(False, "a session's global_jit_level also applies to the CPU")
    tf_xla_min_cluster_size: int = _flag(
        4,
        "dissolve clusters with fewer operations (not counting Identity and Const)",
    )
    tf_xla_max_cluster_size: int = _flag(2**31 - 1, "the maximum number of operations in a cluster")
    tf_xla_ops_to_cluster: tuple[str, ...] = _flag(
        (),
        "the only op types that are clustered, or shortcuts: PW, RED, MISC, PWRED, REDUCEWINDOW, "
        "REDUCEWINDOWPW, BN, FUSIBLE",
    )
    tf_xla_cluster_exclude_ops: tuple[str, ...] = _flag((), "op types that are not clustered")
    tf_xla_clustering_fuel: int = _flag(2**63 - 1, "the number of nodes that may be clustered")
    tf_xla_clustering_debug: bool = _flag(False, "write the graphs before and after clustering to the dump directory")
    tf_xla_deterministic_cluster_names: bool = _flag(False, "make the names of clusters depend on their content only")
    tf_xla_enable_lazy_compilation: bool = _flag(True, "compile a cluster only after it has run often enough")
    tf_xla_async_compilation: bool = _flag(
        False, "compile clusters in background threads; until one is ready, its nodes run op by op"
    )
    tf_xla_disable_deadness_safety_checks_for_debugging: bool = _flag(
        False,
        "cluster over mismatching deadness (unsound)",
    )
    tf_xla_disable_resource_variable_safety_checks_for_debugging: bool = _flag(
        False,
        "cluster over resource conflicts (unsound)",
    )
    xla_disable_hlo_passes: tuple[str, ...] = _flag((), "HLO passes to disable")
    xla_enable_hlo_passes_only: tuple[str, ...] = _flag((), "the only HLO passes to run")
    xla_cpu_multi_thread_eigen: bool = _flag(True, "compiled code may use more than one thread")
    xla_cpu_collective_call_terminate_timeout_seconds: int = _flag(
        10,
        "seconds without progress of any device, after which a device that others wait for is late and the run fails",
    )
    xla_hlo_profile: bool = _flag(False, "print the time of each kernel after every run")
    xla_hlo_graph_sharding_color: bool = _flag(False, "colour the nodes of graphs by sharding")
    xla_dump_to: str = _flag("", "the directory for dumps; `-` is standard output")
    xla_dump_hlo_module_re: str = _flag("", "dump only modules whose name matches this regular expression")
    xla_dump_hlo_pass_re: str = _flag(
        "",
        "dump before and after passes whose name matches it; exactly .* omits passes that changed nothing",
    )
    xla_dump_hlo_pipeline_re: str = _flag("", "dump only passes of pipelines whose name matches it")
    xla_dump_hlo_as_text: bool = _flag(False, "dump HLO as text; the default format")
    xla_dump_hlo_as_proto: bool = _flag(False, "dump HLO as binary HloModuleProto (.hlo.pb)")
    xla_dump_hlo_as_dot: bool = _flag(False, "dump HLO as Graphviz graphs")
    xla_dump_hlo_as_html: bool = _flag(False, "dump HLO as self-contained HTML pages")
    xla_dump_hlo_as_url: bool = _flag(False, "dump HLO as data: URLs of Graphviz graphs")
    xla_dump_compress_protos: bool = _flag(False, "compress protocol buffers with gzip")
    xla_dump_include_timestamp: bool = _flag(
        False,
        "prefix names with the time, in microseconds, at which the module's first file was written",
    )
    xla_dump_max_hlo_modules: int = _flag(-1, "the maximum number of modules to dump; negative: all")
    tf_dump_graph_prefix: str = _flag(
        "",
        "the directory for TensorFlow graphs; also TF_DUMP_GRAPH_PREFIX",
    )
    vmodule: tuple[str, ...] = _flag((), "log verbosity by part of the compiler, as in xla_compiler=2")
    xlanb_lazy_compilation: bool = _flag(
        False,
        "compile clusters lazily, as _XlaCompile does: a new signature at its second request, megamorphic "
        "clusters never; otherwise always, as XlaLaunch does",
    )
    xlanb_fold_batch_norms: bool = _flag(
        False, "fold batch normalizations with constant statistics into the preceding weights, before clustering"
    )
    xlanb_grappler: tuple[str, ...] = _flag(
        (), "Grappler optimizers to run before clustering: arithmetic_optimizer, layout, remapper"
    )
    xlanb_gpu: str = _flag(
        "",
        "give sessions this GPU (a100, h100, ...) as GPU:0 and XLA_GPU:0: xlanb compiles clusters for it and "
        "emulates their kernels on the CPU",
    )
    xlanb_max_expanded_instructions: int = _flag(
        20_000, "reject modules that would have more instructions with one copy of each computation per call"
    )
    xlanb_generation: int = _flag(0, "change this number to recompile everything")

    @property
    def writes_dumps(self) -> bool:
        """Whether the flags ask for dumps of HLO."""
        return bool(
            self.xla_dump_to or self.xla_dump_hlo_pass_re or self.xla_dump_hlo_module_re or self.xla_dump_hlo_as_text
        )


def _dump_all(**values: Any) -> dict[str, Any]:
    return {"xla_dump_hlo_pass_re": ".*", **values}


OLD_GRAPH_PATH = "/tmp/"  # noqa: S108 - a fact about XLA of then
"""The directory to which XLA of 2017 and 2018 wrote graphs without xla_hlo_graph_path."""

OLD_FLAGS: Mapping[str, tuple[str, Any]] = {
    "xla_generate_hlo_graph": (
        "--xla_dump_hlo_as_dot --xla_dump_hlo_module_re --xla_dump_hlo_pass_re=.*"
        f" --xla_dump_to={OLD_GRAPH_PATH} unless another directory is given",
        lambda v: _dump_all(xla_dump_hlo_module_re=".*" if v == "true" else v, xla_dump_hlo_as_dot=True),
    ),
    "xla_generate_hlo_text_to": (
        "--xla_dump_to --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*",
        lambda v: _dump_all(xla_dump_to=v, xla_dump_hlo_as_text=True),
    ),
    "xla_hlo_graph_path": ("--xla_dump_to", lambda v: {"xla_dump_to": v}),
    "xla_hlo_dump_as_html": (
        "--xla_dump_hlo_as_html",
        lambda v: {"xla_dump_hlo_as_html": _bool("xla_hlo_dump_as_html", v)},
    ),
    "xla_dump_ir_to": ("--xla_dump_to", lambda v: {"xla_dump_to": v}),
    "xla_dump_unoptimized_hlo_proto_to": (
        "--xla_dump_to --xla_dump_hlo_as_proto",
        lambda v: {"xla_dump_to": v, "xla_dump_hlo_as_proto": True},
    ),
    "xla_dump_optimized_hlo_proto_to": (
        "--xla_dump_to --xla_dump_hlo_as_proto",
        lambda v: {"xla_dump_to": v, "xla_dump_hlo_as_proto": True},
    ),
    "xla_dump_per_pass_hlo_proto_to": (
        "--xla_dump_to --xla_dump_hlo_as_proto --xla_dump_hlo_pass_re=.*",
        lambda v: _dump_all(xla_dump_to=v, xla_dump_hlo_as_proto=True),
    ),
}
"""Flags of 2017 and 2018: their current equivalent and the options they set."""


def parse_flags(text: str, base: DebugOptions | None = None, *, strict: bool = True) -> DebugOptions:
    """Parse options from `--name=value` words; `--flag` alone means true, and a later word wins.

    Flags that the real XLA or TensorFlow know and xlanb does not implement change nothing. Without
    `strict`, unknown names are ignored too, unless one letter from a known one: a newer XLA may
    have them.

    Raises:
        FlagError: a name is unknown (the message gives the nearest one) or a value is invalid.
    """
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise FlagError(f"flags cannot be read: {error}: {text!r}") from None
    values: dict[str, Any] = {}
    draws = False
    for word in words:
        if not word.startswith("--"):
            raise FlagError(f"flag {word!r} does not start with --")
        name, equals, value = word.removeprefix("--").partition("=")
        values.update(_meaning(name, value if equals else "true", strict=strict))
        draws = draws or name == "xla_generate_hlo_graph"
    options = replace(base or DebugOptions(), **values)
    return replace(options, xla_dump_to=OLD_GRAPH_PATH) if draws and not options.xla_dump_to else options


def _meaning(name: str, text: str, *, strict: bool) -> dict[str, Any]:
    """Return the fields that one flag sets, by name."""
    own = _fields().get(name)
    if name == "tf_xla_auto_jit" and text == "fusible":
        return {"tf_xla_auto_jit": 1, "tf_xla_ops_to_cluster": ("FUSIBLE",)}
    if name == "tf_xla_auto_jit" and re.fullmatch(r"single-gpu\(\d+\)", text):
        return {}  # it applies only to graphs on one GPU
    if own is not None:
        return {name: _value(name, own.default, text)}
    if name in OLD_FLAGS:
        made: dict[str, Any] = OLD_FLAGS[name][1](text)
        return made
    from xlanb.flag_names import REAL_FLAGS

    if name in REAL_FLAGS:
        return {}
    near = close_names(name, [*_fields(), *OLD_FLAGS, *REAL_FLAGS], 1, 0.6 if strict else _CLOSE)
    if strict or near:
        raise FlagError(f"unknown flag --{name}" + (f"; did you mean --{near[0]}?" if near else ""))
    return {}


def _value(name: str, default: Any, text: str) -> Any:
    if isinstance(default, bool):
        return _bool(name, text)
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise FlagError(f"--{name} takes an integer, not {text!r}") from None
    return text if isinstance(default, str) else tuple(filter(None, text.split(",")))


def _bool(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise FlagError(f"--{name} takes true or false, not {text!r}")
    return text.lower() in ("true", "1")


@cache
def _fields() -> dict[str, Field[Any]]:
    return {f.name: f for f in fields(DebugOptions)}


@cache
def _of_environment(texts: tuple[str, ...], graph_prefix: str) -> DebugOptions:
    options = DebugOptions(tf_dump_graph_prefix=graph_prefix)
    for variable, text in zip(ENVIRONMENT, texts, strict=True):
        options = parse_flags(text, options, strict=variable == "XLANB_FLAGS")
    return options


_SESSION: dict[str, DebugOptions] = {}
_CURRENT: ContextVar[DebugOptions | None] = ContextVar("xlanb_debug_options", default=None)


def current() -> DebugOptions:
    """The options in force.

    Raises:
        FlagError: the environment holds a bad flag.
    """
    return (
        _CURRENT.get()
        or _SESSION.get("options")
        or _of_environment(tuple(os.environ.get(v, "") for v in ENVIRONMENT), os.environ.get(GRAPH_PREFIX_VARIABLE, ""))
    )


@contextmanager
def flags(text: str = "", **values: Any) -> Iterator[DebugOptions]:
    """Change flags within a block: `with xlanb.flags("--xla_disable_hlo_passes=fusion"):`.

    Or by keyword: `xlanb.flags(xla_disable_hlo_passes=("fusion",))`. Names and meanings are those
    of XLA_FLAGS and TF_XLA_FLAGS, of today and of 2017; `%xla_flags` lists them.

    Args:
        text: flags, written as in XLA_FLAGS.
        **values: flags by name, without the dashes; a tuple or list for a flag with several values.

    Yields:
        The options in force.

    Raises:
        FlagError: a name is unknown or a value is invalid.
    """
    options = parse_flags(text, current())
    for name, value in values.items():
        given = ",".join(value) if isinstance(value, tuple | list) else str(value)
        options = replace(options, **_meaning(name, given, strict=True))
    with bound(_CURRENT, options):
        yield options


def set_for_session(options: DebugOptions | None) -> None:
    """Set the options of this process, where no block overrides them; None restores the
    environment's.
    """
    _SESSION.clear()
    if options is not None:
        _SESSION["options"] = options


@contextmanager
def in_force(options: DebugOptions) -> Iterator[DebugOptions]:
    """Use exactly these options within a block: work that began under them continues under them."""
    with bound(_CURRENT, options):
        yield options


def environment_number(name: str, otherwise: int) -> int:
    """Return an environment variable's whole number, or `otherwise` if it is unset or empty.

    Raises:
        FlagError: it is not a whole number, or negative.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal()):
        raise FlagError(f"{name}: expected a whole number such as {otherwise}, got {text!r}; unset it for the default")
    return int(text)


def flag_table() -> list[tuple[str, str, str]]:
    """List all implemented flags (name, default, meaning), then those of 2017 and 2018 with today's
    names.
    """
    rows = [(f"--{f.name}", _shown(f.default), str(f.metadata["meaning"])) for f in fields(DebugOptions)]
    return rows + [(f"--{name}", "", f"2017-2018: {today}") for name, (today, _) in OLD_FLAGS.items()]


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return ",".join(default) if isinstance(default, tuple) else str(default)
