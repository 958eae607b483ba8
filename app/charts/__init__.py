"""Report -> plotly Figure, one function per chart of the browser app; no streamlit, no torch."""

from .intervention_charts import EFFECTS, class_effect, effect_frames, effect_over_time, patch_chooser, spread

__all__ = ["EFFECTS", "class_effect", "effect_frames", "effect_over_time", "patch_chooser", "spread"]
