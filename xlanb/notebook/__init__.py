"""In Jupyter: the magics and the step widget."""
