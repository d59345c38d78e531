"""%xla_tensorflow in a real IPython shell, in a process without the real TensorFlow."""

from __future__ import annotations

import subprocess
import sys

SESSION = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "xlanb")
def cell(text):
    result = shell.run_cell(text)
    return result.error_in_exec
assert cell("%xla_tensorflow") is None
assert cell("import tensorflow as tf\\nfrom tensorflow.examples.tutorials.mnist import input_data") is None
assert cell("x = tf.placeholder(tf.float32, [3])\\ny = x * 2.0\\n"
            "print(tf.Session().run(y, {x: [1, 2, 3]}))") is None
assert cell("%xla_tensorflow off") is None
assert "expected on or off" in str(cell("%xla_tensorflow maybe"))
"""


def test_cells_import_it_until_it_is_switched_off() -> None:
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "import tensorflow is xlanb.tf\n" in done.stdout
    assert "[2. 4. 6.]" in done.stdout
    assert "import tensorflow is TensorFlow's own" in done.stdout
