"""Hooks are declared in a lower package and implemented by the module in `xlanb/__init__.py`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.hooks import Hook, set_providers

SOURCE = Path(xlanb.__file__).parent


def declared() -> set[str]:
    """The names of all hooks that the package declares, read from the source."""
    texts = (text for p in SOURCE.rglob("*.py") if "Hook(" in (text := p.read_text()))
    calls = (n for text in texts for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call))
    return {
        c.args[0].value
        for c in calls
        if isinstance(c.func, ast.Name) and c.func.id == "Hook" and isinstance(c.args[0], ast.Constant)
    }


def test_every_hook_has_a_provider() -> None:
    assert declared() == set(xlanb._PROVIDERS)


def test_every_provider_implements_its_hooks() -> None:
    # In a new process, so that importing a provider really registers.
    script = (
        "import importlib, pkgutil, sys, xlanb\n"
        "from xlanb.hooks import Hook\n"
        "for name, provider in xlanb._PROVIDERS.items():\n"
        "    importlib.import_module(provider)\n"
        "hooks = {h.name: h for m in list(sys.modules.values()) if m.__name__.startswith('xlanb')\n"
        "         for h in vars(m).values() if isinstance(h, Hook)}\n"
        "print(sorted(n for n in xlanb._PROVIDERS if n not in hooks or hooks[n]._implementation is None))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=SOURCE.parent, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_calling_a_hook_imports_its_provider() -> None:
    script = (
        "import sys, xlanb\n"
        "from xlanb.errors import XlanbError\n"
        "assert 'xlanb.notebook.faults' not in sys.modules\n"
        "assert XlanbError('a fault')._render_traceback_()[-1].strip().endswith('a fault')\n"
        "assert 'xlanb.notebook.faults' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=SOURCE.parent, check=True)


def test_a_hook_calls_the_implementation_registered_last() -> None:
    hook: Hook[[int], int] = Hook("test.last")
    hook.implement(lambda x: x + 1)
    hook.implement(lambda x: x * 10)
    assert hook(4) == 40


def test_a_hook_without_a_provider_names_itself() -> None:
    hook: Hook[[], None] = Hook("test.unknown")
    with pytest.raises(LookupError, match=r"'test\.unknown'"):
        hook()


def test_a_provider_that_does_not_implement_its_hook_is_named() -> None:
    set_providers({"test.missing": "xlanb.contexts"})
    hook: Hook[[], None] = Hook("test.missing")
    with pytest.raises(LookupError, match=r"xlanb\.contexts does not implement the hook 'test\.missing'"):
        hook()
