"""Compile with the real XLA in a child process, as its flags are read once and it may crash.

This is the parent's side; serve.py runs in the child.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.cpu.records import ExecutionRecord
from xlanb.dump.reader import ModuleFiles, list_dump
from xlanb.errors import XlanbError
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.files import TemporaryFolder
from xlanb.hlo import HloModule
from xlanb.peers.versions import installed

TIMEOUT_S = 600


@dataclass
class RealCompilation:
    """The child's results: the dump, compile seconds, bytes of temporaries, and the runs.

    With inputs it has the results and the wall seconds of each run; `call_seconds` is the median of
    an empty call.
    """

    files: ModuleFiles
    compile_seconds: float
    temp_bytes: int
    results: list[NDArray[Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    call_seconds: float = 0.0
    folder: TemporaryFolder | None = None

    def discard(self) -> None:
        """Remove the dump after it has been read."""
        if self.folder is not None:
            self.folder.remove()


class RealTrace(Trace):
    """A Trace of the real compiler, with its measurements.

    `results` are leaf by leaf; it has `compile_seconds` and `temp_bytes`, too. `call_seconds` is
    the time of a call of an empty program on the same arguments.
    """

    def __init__(self, name: str, stages: Sequence[Stage], made: RealCompilation) -> None:
        super().__init__(name, stages)
        self.results = made.results
        self._compile_seconds = made.compile_seconds
        self.temp_bytes = made.temp_bytes
        self.call_seconds = made.call_seconds

    @property
    def compile_seconds(self) -> float:
        """The compile time, by the child's clock."""
        return self._compile_seconds

    def results_on(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the real program's results if these are the arrays that it ran on, else None."""
        same = len(inputs) == len(self.inputs) and all(
            np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")
            for a, b in zip(inputs, self.inputs, strict=True)
        )
        return self.results if same and self.results else None


def compile_in_child(
    text: str, arrays: Sequence[Any] = (), *, all_passes: bool = False, runs: int = 20, flags: str = ""
) -> RealCompilation:
    """Compile HLO text by the real XLA:CPU, and run it on `arrays` if there are any.

    Raises:
        XlanbError: it was refused, crashed, or took more than TIMEOUT_S.
    """
    folder = TemporaryFolder(Path(tempfile.mkdtemp(prefix="xlanb-peer-")))
    try:
        return _compile(folder, text, arrays, all_passes=all_passes, runs=runs, flags=flags)
    except BaseException:
        folder.remove()
        raise


def _compile(
    owner: TemporaryFolder, text: str, arrays: Sequence[Any], *, all_passes: bool, runs: int, flags: str
) -> RealCompilation:
    folder = owner.path
    dumps = folder / "dumps"
    dumps.mkdir()
    (folder / "module.hlo").write_text(text)
    save_arrays(folder / "args.npz", arrays)
    dtypes = [np.asarray(a).dtype.name for a in arrays]
    (folder / "request.json").write_text(json.dumps({"runs": runs, "dtypes": dtypes}))
    pattern = ".+" if all_passes else ".*"
    wanted = (
        f"--xla_dump_to={dumps} --xla_dump_hlo_pass_re={pattern} --xla_dump_hlo_as_text "
        f"--xla_dump_large_constants=true {installed().dump_flags}"
    )
    environment = os.environ | {
        "XLA_FLAGS": f"{wanted} {flags}".strip(),
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    command = [sys.executable, "-m", "xlanb.peers.serve", str(folder)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise XlanbError(f"the real XLA took more than {TIMEOUT_S} s") from error
    left = folder / "answer.json"
    if not left.exists():
        last = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise XlanbError(f"the real XLA exited with status {done.returncode}:\n{last}")
    told = json.loads(left.read_text())
    if "error" in told:
        raise XlanbError(f"the real XLA rejects the module: {told['error']}")
    modules = [m for m in list_dump(dumps, owner).modules if m.hlo("before_optimizations") is not None]
    if not modules:
        raise XlanbError("the real XLA wrote no dump of the module")
    results = load_arrays(folder / "results.npz", told["dtypes"])
    files = max(modules, key=lambda m: (m.name == told["name"], m.number))
    return RealCompilation(
        files, told["compile_seconds"], told["temp_bytes"], results, told["seconds"], told["call_seconds"], owner
    )


def execution_stage(index: int, made: RealCompilation) -> Stage:
    """The run as a stage of the trace."""
    results = tuple((f"{r.dtype.name}{list(r.shape)}", np.array2string(r, threshold=8)) for r in made.results)
    median = statistics.median(made.seconds)
    record = ExecutionRecord(median, (), results, len(made.seconds))
    summary = f"{len(made.seconds)} runs, median {median * 1e6:.1f} us"
    return Stage("execution", "execution", None, record, (), seconds=median, summary=summary, index=index)


def save_arrays(path: Path, arrays: Sequence[Any]) -> None:
    """Arrays as an .npz; dtypes that NumPy does not know (bfloat16, fp8) go as their bits."""
    made = [np.ascontiguousarray(a) for a in arrays]
    np.savez(path, *(a if a.dtype.isbuiltin == 1 else a.view(f"u{a.dtype.itemsize}") for a in made))


def load_arrays(path: Path, dtypes: Sequence[str]) -> list[NDArray[Any]]:
    """The arrays that `save_arrays` wrote, in their dtypes."""
    import ml_dtypes  # noqa: F401 - registers the dtypes

    with np.load(path, allow_pickle=False) as data:
        return [data[f"arr_{k}"].view(np.dtype(d)) for k, d in enumerate(dtypes)]


def empty_program(module: HloModule) -> str:
    """Return HLO text of an empty program with the same arguments, to measure a call's overhead."""
    parameters = module.entry_computation.parameters
    lines = [f"  p{k} = {p.shape} parameter({k})" for k, p in enumerate(parameters)]
    return "\n".join(
        ["HloModule empty", "", "ENTRY main {", *lines, "  ROOT nothing = pred[] constant(false)", "}", ""]
    )


def answer(folder: Path, serve: Callable[[Path], dict[str, Any]]) -> int:
    """Serve one request; write an answer even if the real compiler rejects it.

    Returns the exit status.
    """
    try:
        told = serve(folder)
    except Exception as error:  # noqa: BLE001 - whatever it was, the parent raises it
        told = {"error": f"{type(error).__name__}: {error}"}
    (folder / "answer.json").write_text(json.dumps(told))
    return 0
