"""Load packages that few cells need when they are first imported.

Python runs this file of the site's standard library when it starts. The build replaces LATER.
"""

import importlib.abc
import importlib.util
import io
import site
import sys
import zipfile
from types import ModuleType

LATER: dict[str, list[str]] = {}
"""By module: the wheels to unpack, next to Pyodide's own files."""


class LaterPackages(importlib.abc.MetaPathFinder):
    """Fetch and unpack a package's wheels while its first import waits."""

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return None for a module that is not one of these packages."""
        wheels = LATER.pop(name, None)
        if wheels is None:
            return None
        for wheel in wheels:
            zipfile.ZipFile(io.BytesIO(fetched(wheel))).extractall(site.getsitepackages()[0])
        importlib.invalidate_caches()
        return importlib.util.find_spec(name)


def fetched(file: str) -> bytes:
    """Fetch a file of the site; a web worker may wait for it.

    Raises:
        ImportError: the site does not have it.
    """
    import js
    import pyodide_js

    request = js.XMLHttpRequest.new()
    request.open("GET", pyodide_js._api.config.indexURL + file, False)  # noqa: SLF001 - Pyodide has no public name
    request.responseType = "arraybuffer"
    request.send()
    if request.status != 200:
        raise ImportError(f"cannot fetch {file}: the server answers {request.status} {request.statusText}")
    content: bytes = request.response.to_bytes()
    return content


sys.meta_path.append(LaterPackages())
