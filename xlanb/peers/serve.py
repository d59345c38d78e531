"""The child process of child.py: compile and run one module with the real XLA.

Run as `python -m xlanb.peers.serve REQUEST`: REQUEST is a folder with module.hlo, args.npz and
request.json; the child writes dumps/, results.npz and answer.json to it.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.hlo import parse
from xlanb.peers.child import answer, empty_program, load_arrays, save_arrays
from xlanb.peers.xla import RealExecutable


def _serve(folder: Path) -> dict[str, Any]:
    """The child's work."""
    request = json.loads((folder / "request.json").read_text())
    begin = time.perf_counter()
    text = (folder / "module.hlo").read_text()
    executable = RealExecutable(text)
    compile_seconds = time.perf_counter() - begin
    arrays = load_arrays(folder / "args.npz", request["dtypes"])
    results: list[Any] = []
    seconds: list[float] = []
    empty: list[float] = []
    if arrays:
        nothing = RealExecutable(empty_program(parse(text)))
        buffers = executable.put(arrays)
        results = [np.asarray(r) for r in executable.run(buffers)]
        nothing.run(buffers)
        for _ in range(request["runs"]):
            for run, times in ((executable.run, seconds), (nothing.run, empty)):
                begin = time.perf_counter()
                run(buffers)
                times.append(time.perf_counter() - begin)
    save_arrays(folder / "results.npz", results)
    return {
        "name": executable.name,
        "compile_seconds": compile_seconds,
        "temp_bytes": executable.temp_bytes,
        "dtypes": [r.dtype.name for r in results],
        "seconds": seconds,
        "call_seconds": statistics.median(empty) if empty else 0.0,
    }


if __name__ == "__main__":
    sys.exit(answer(Path(sys.argv[1]), _serve))
