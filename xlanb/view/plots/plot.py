"""The figures that `plot()` gives: plotly's, with a still picture of them in what a notebook keeps."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from xlanb.view.plots.picture import figure_svg, figure_text
from xlanb.view.still import image_html


class Plot(go.Figure):  # type: ignore[misc]
    """A plotly Figure that is a picture where no script runs, and ten lines where there are no pictures."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, validate: bool = True, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(include, exclude, validate, **kwargs)
        if not bundle:  # a renderer that opens a window
            return bundle
        text = figure_text(self)
        picture = {} if "image/png" in bundle else {"text/html": image_html(figure_svg(self), text.split("\n", 1)[0])}
        return {**picture, "text/plain": text, **bundle}

    def _ipython_display_(self) -> None:
        from IPython.display import publish_display_data
        from plotly import io

        bundle = self._repr_mimebundle_() if io.renderers.render_on_display and io.renderers.default else None
        if bundle:
            publish_display_data(bundle)
        else:
            super()._ipython_display_()
