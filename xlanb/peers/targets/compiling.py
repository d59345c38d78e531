"""Compile for a target in a child process: its environment, progress, time limit, and disk
cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from xlanb.dump.names import decode_name
from xlanb.dump.reader import ModuleFiles, list_dump
from xlanb.errors import MissingPeerError, XlanbError
from xlanb.files import TemporaryFolder
from xlanb.frontends.jax_lowering import JaxProgram
from xlanb.lazy_logging import logger
from xlanb.peers import cuda_tools
from xlanb.peers.targets import serve
from xlanb.peers.targets.cache import PART, cache_folder, compress, found, keep, key_of
from xlanb.peers.targets.installed import NEEDS, check_installed, versions
from xlanb.peers.targets.names import TargetName
from xlanb.wording import counted

_LOG = logger("xlanb.peers")
TIMEOUT_S = 600.0
_POLL_S = 0.05
_LAST_LINES = 12
Progress = Callable[[str], None]


@dataclass
class TargetCompilation:
    """The real compiler's output of one program for one target.

    `folder` holds DUMPS (`dumps`), the final module (`final.hlo`) and the answer; `owner` keeps it
    alive if it is not in the cache. `cost` and `memory` are the compiler's own figures, under its
    own names (operations, bytes, seconds); empty if the platform has none.
    """

    target: TargetName
    folder: Path
    answer: dict[str, Any]
    owner: TemporaryFolder | None = None
    from_cache: bool = False
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def compile_seconds(self) -> float:
        """Wall seconds of the compilation itself."""
        return float(self.answer["compile_seconds"])

    @property
    def cost(self) -> dict[str, float]:
        """The compiler's cost analysis."""
        return dict(self.answer["cost"])

    @property
    def memory(self) -> dict[str, float]:
        """The compiler's figures of memory, bytes."""
        return dict(self.answer["memory"])

    @property
    def final_text(self) -> str:
        """The final module, as `compile().as_text()` has it."""
        return (self.folder / "final.hlo").read_text()

    @cached_property
    def files(self) -> ModuleFiles:
        """The dump of the program.

        Raises:
            XlanbError: the compiler wrote none.
        """
        modules = [
            m for m in list_dump(self.folder / "dumps", self.owner).modules if m.hlo("before_optimizations") is not None
        ]
        if not modules:
            raise XlanbError(f"the real XLA wrote no dump of the module for {self.target}")
        name = self.answer["name"]
        return max(modules, key=lambda m: (m.name.partition(".")[0] == name.partition(".")[0], len(m.files)))


def compile_for(
    target: TargetName,
    program: JaxProgram,
    *,
    all_passes: bool = False,
    flags: str = "",
    python: str = "",
    timeout: float = TIMEOUT_S,
    progress: Progress | None = None,
) -> TargetCompilation:
    """Compile a program for a target with the real XLA, or take it from the cache.

    With `all_passes` every pass is dumped, else those that changed something. `flags` are
    additional XLA_FLAGS; `python` is the interpreter of another environment, with another version
    of JAX; `progress` is called with a text at each stage; `timeout` is in seconds.

    Raises:
        MissingPeerError: the target's compiler is not installed.
        XlanbError: it rejects the program, crashes, or takes longer than `timeout`.
    """
    check_installed(target, python)
    made_by = versions(python)
    cache = cache_folder()
    flags = f"--xla_dump_hlo_pass_re={'.+' if all_passes else '.*'} {flags}".strip()
    wanted = json.dumps([_request(target, program), flags, sorted(made_by.items())])
    key = key_of(program.identity, wanted)
    kept = found(cache, key) if cache is not None else None
    if kept is not None:
        return TargetCompilation(target, kept, _answer(kept), from_cache=True, versions=made_by)
    owner = TemporaryFolder(Path(tempfile.mkdtemp(prefix=PART, dir=cache)))
    folder = owner.path
    try:
        _run(folder, target, program, flags, python, timeout, progress or _silent)
        answer = _answer(folder, NEEDS[target.platform].obstacle)
        if target.platform == "cuda":
            _assemble(folder / "dumps", progress or _silent)
        if target.is_tpu and cache is not None:
            compress(folder / "dumps" / "llo")
    except BaseException:
        owner.remove()
        raise
    place = keep(cache, key, folder) if cache is not None else folder
    if place != folder:
        owner.keep()
    return TargetCompilation(target, place, answer, owner if place == folder else None, versions=made_by)


def _assemble(dumps: Path, progress: Progress) -> None:
    """Assemble the PTX to machine code; if the tools are not installed, only log that once."""
    progress("ptxas and nvdisasm")
    try:
        cuda_tools.assemble(dumps)
    except MissingPeerError as error:
        _LOG.warning("no registers and no SASS: %s", error)


def _silent(_text: str) -> None:
    """Ignore progress."""


def _request(target: TargetName, program: JaxProgram) -> dict[str, Any]:
    return {
        "name": target.name,
        "platform": target.platform,
        "topology": target.topology,
        "config": target.config,
        "partitions": program.partitions,
        "replicas": program.replicas,
        "propagate_to_parameters": program.propagate_to_parameters,
        "propagate_to_output": program.propagate_to_output,
    }


def _run(
    folder: Path, target: TargetName, program: JaxProgram, flags: str, python: str, timeout: float, progress: Progress
) -> None:
    """Let the child compile; it leaves its answer in the folder.

    Raises:
        XlanbError: it ended without one, or took too long.
    """
    dumps = folder / "dumps"
    dumps.mkdir()
    (folder / ("program.hlo" if program.is_hlo else "program.mlir")).write_bytes(program.data)
    (folder / "request.json").write_text(json.dumps(_request(target, program)))
    # A script of its own, by its path: the other environment needs no xlanb.
    command = [python or sys.executable, "-P", str(Path(serve.__file__)), str(folder)]
    with (folder / "stderr.txt").open("wb") as errors:
        child = subprocess.Popen(
            command,
            env=_environment(dumps, target, flags, python),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=folder,
        )
        try:
            _watch(child, dumps, time.monotonic() + timeout, progress)
        except BaseException:
            child.kill()
            child.wait()
            raise
    if child.returncode is None or not (folder / "answer.json").exists():
        raise XlanbError(
            f"the real XLA {_ending(child.returncode)} while it compiled for {target}:\n{_last_lines(folder)}"
        )


def _ending(status: int | None) -> str:
    return f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"


def _watch(child: subprocess.Popen[bytes], dumps: Path, end: float, progress: Progress) -> None:
    """Wait for the child, and report each pass whose dump appears."""
    seen = 0
    progress("starting the compiler")
    while child.poll() is None:
        if time.monotonic() > end:
            raise XlanbError(
                f"the real XLA took longer than its time limit: it had dumped {counted(seen, 'file')} by then"
            )
        names = [f.name for f in dumps.iterdir()]
        if len(names) != seen:
            seen = len(names)
            progress(_progress_message(names))
        time.sleep(_POLL_S)
    progress(counted(sum(1 for _ in dumps.iterdir()), "file"))


def _progress_message(names: list[str]) -> str:
    """The latest pass among the names of dumps, in words."""
    decoded = [decode_name(n) for n in names]
    last = max(decoded, key=lambda n: -1 if n.sequence is None else n.sequence)
    return f"{counted(len(names), 'file')}: {last.describe()}"


def _environment(dumps: Path, target: TargetName, flags: str, python: str = "") -> dict[str, str]:
    wanted = f"--xla_dump_to={dumps} --xla_dump_hlo_as_text --xla_dump_large_constants=true"
    if target.platform == "cuda":
        wanted = f"{wanted} {cuda_tools.toolkit_flag()}".rstrip()
    if target.is_gpu:
        wanted = f"{wanted} {_EMITTERS}"
    if target.platform == "oneapi":
        wanted = f"{wanted} {_WITHOUT_DEVICE}"
    more = {
        "JAX_PLATFORMS": "cpu",  # a client of the device's own would look for the device
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "XLA_FLAGS": f"{wanted} {flags}",
    }
    if target.is_tpu:
        more |= {
            "TPU_SKIP_MDS_QUERY": "1",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "TPU_STDERR_LOG_LEVEL": "3",
            "TPU_LOG_DIR": "disabled",
            "LIBTPU_INIT_ARGS": f"--xla_jf_dump_to={dumps / 'llo'} --xla_jf_dump_hlo_text=true",
        }
    else:
        more["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    if target.platform == "oneapi":
        more["LD_LIBRARY_PATH"] = _libraries(python)
    left_out = (*_LEFT_OUT, *(_OF_THIS_ENVIRONMENT if python else ()))
    return {k: v for k, v in os.environ.items() if k not in left_out} | more


_EMITTERS = "--xla_dump_emitter_re=^(triton-fusion|ptx|llvm)"
"""Dump Triton's IR, and LLVM IR and PTX, as XLA does since JAX 0.12.

Not the whole output of emitters: printing MLIR's passes takes minutes.
"""

_WITHOUT_DEVICE = "--xla_disable_hlo_passes=sycl-gemm-workspace"
"""That pass queries oneDNN on the device for the workspace size of a matrix product."""


def _libraries(python: str) -> str:
    """Return the wheels' folders of Intel's libraries, before those in LD_LIBRARY_PATH."""
    prefix = Path(python).parent.parent if python else Path(sys.prefix)
    return ":".join(p for p in (str(prefix / "lib"), os.environ.get("LD_LIBRARY_PATH", "")) if p)


_LEFT_OUT = ("PYTHONPATH", "JAX_TRACEBACK_FILTERING", "JAX_DISABLE_JIT", "CUDA_VISIBLE_DEVICES")
"""Environment variables that would change the child process.

PYTHONPATH belongs to this environment, which may not be the child's.
"""

_OF_THIS_ENVIRONMENT = ("TPU_LIBRARY_PATH", "TPU_ML_PLATFORM", "TPU_ML_PLATFORM_VERSION")
"""Variables that JAX sets here; a child with another Python must find its own libtpu."""


def _answer(folder: Path, obstacle: str = "") -> dict[str, Any]:
    """Return the child's answer.

    `obstacle` is the reason why the platform's plugin cannot start, if any.

    Raises:
        XlanbError: the child reported an error.
    """
    told: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    if "error" in told:
        if obstacle and "topology not implemented" in told["error"]:
            raise XlanbError(f"the plugin of JAX did not start ({obstacle}): {told['error']}")
        raise XlanbError(f"the real XLA rejects the program: {told['error']}")
    return told


def _last_lines(folder: Path) -> str:
    text = (folder / "stderr.txt").read_bytes()[-65536:].decode("utf-8", "replace")
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
