"""`import tensorflow` as `xlanb.tf`: an import hook for programs of TensorFlow 1, installed on
request.

    with as_tensorflow():
        import tensorflow as tf                      # xlanb.tf
        from tensorflow.python.client import timeline    # xlanb.tf.python.client.timeline

While it is installed, `tensorflow` and its submodules are the modules of the same names in
`xlanb.tf`; a missing one raises ModuleNotFoundError. Removing the hook removes these names too, so
that the next import finds the real TensorFlow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from xlanb.errors import ArgumentError

_REAL, _OURS = "tensorflow", "xlanb.tf"


class _SameModule(Loader):
    """Load a module of xlanb.tf under another name, as the same object."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set that of the other name


class _Finder(MetaPathFinder):
    """Finds tensorflow and the modules below it in xlanb.tf."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _REAL and not fullname.startswith(f"{_REAL}."):
            return None
        ours = _OURS + fullname.removeprefix(_REAL)
        if ours not in sys.modules and not _is_there(ours):
            raise ModuleNotFoundError(
                f"{fullname} is not in xlanb.tf, which is used in place of TensorFlow", name=fullname
            )
        return ModuleSpec(fullname, _SameModule(ours), is_package=True)


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package above it is not there
        return False


_FINDER = _Finder()


def install() -> None:
    """Make `import tensorflow` import xlanb.tf; repeated calls do nothing.

    Raises:
        ArgumentError: the real TensorFlow is imported in this process.
    """
    if _FINDER in sys.meta_path:
        return
    loaded = sys.modules.get(_REAL)
    if loaded is not None and loaded is not sys.modules.get(_OURS):
        raise ArgumentError(
            "the real TensorFlow is already imported in this process: start a new one (in a notebook, restart "
            "the kernel)"
        )
    sys.meta_path.insert(0, _FINDER)


def uninstall() -> None:
    """Make `import tensorflow` import the real one again; repeated calls do nothing."""
    if _FINDER not in sys.meta_path:
        return
    sys.meta_path.remove(_FINDER)
    for name in [n for n in sys.modules if n == _REAL or n.startswith(f"{_REAL}.")]:
        del sys.modules[name]


def is_installed() -> bool:
    """Whether `import tensorflow` is xlanb.tf now."""
    return _FINDER in sys.meta_path


@contextmanager
def as_tensorflow() -> Iterator[None]:
    """Inside the block `import tensorflow` is xlanb.tf.

    Raises:
        ArgumentError: the real TensorFlow is imported in this process.
    """
    was = is_installed()
    install()
    try:
        yield
    finally:
        if not was:
            uninstall()
