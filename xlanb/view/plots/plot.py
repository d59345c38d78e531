"""The figures of `plot()`: plotly's, with a static picture for saved notebooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
from plotly import io

from xlanb.view.plots.picture import figure_svg, figure_text
from xlanb.view.still import image_html


class Plot(go.Figure):  # type: ignore[misc]
    """A plotly Figure with a static picture for pages without scripts, and ten lines of text."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, validate: bool = True, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(include, exclude, validate, **kwargs)
        if not bundle:  # a renderer that opens a window
            return bundle
        text = figure_text(self)
        picture = {} if "image/png" in bundle else {"text/html": image_html(figure_svg(self), text.split("\n", 1)[0])}
        return {**picture, "text/plain": text, **bundle}

    @property
    def _ipython_display_(self) -> Callable[[], None] | None:
        """Use plotly's own display if a renderer opens a window; else IPython uses the bundle."""
        shows_itself = io.renderers.render_on_display and super()._repr_mimebundle_()
        return None if shows_itself else super()._ipython_display_
