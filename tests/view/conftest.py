from __future__ import annotations

import sys
from pathlib import Path

# The factory of traces is shared by the tests of view and of notebook.
sys.path.insert(0, str(Path(__file__).parent))
