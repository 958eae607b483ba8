"""Report -> plotly Figure, one function per chart of the browser app; no streamlit, no torch."""
