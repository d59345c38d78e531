"""%xla_tensorflow: `import tensorflow` is xlanb.tf, in the cells that follow."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class

from xlanb.errors import ArgumentError
from xlanb.tf import import_hook


@magics_class
class TensorflowMagics(Magics):
    """The line magic on `import tensorflow`."""

    @line_magic
    def xla_tensorflow(self, line: str) -> None:
        """%xla_tensorflow [on | off]

        Make `import tensorflow` import xlanb.tf in later cells, for unmodified TensorFlow 1
        programs; `off` restores the real TensorFlow. Names that cells have imported are not
        changed.
        """
        __tracebackhide__ = True
        wanted = line.strip() or "on"
        if wanted not in {"on", "off"}:
            raise ArgumentError(f"%xla_tensorflow {wanted}: expected on or off")
        if wanted == "on":
            import_hook.install()
        else:
            import_hook.uninstall()
        print(
            "import tensorflow is xlanb.tf" if import_hook.is_installed() else "import tensorflow is TensorFlow's own"
        )
