"""Objects of the public face as plotly figures."""
