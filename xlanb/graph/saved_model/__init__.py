"""SavedModels, and the files with their variables."""

from xlanb.graph.saved_model.saved_model import SavedModel, read_saved_model

__all__ = ["SavedModel", "read_saved_model"]
