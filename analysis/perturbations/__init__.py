"""Perturb a picture and follow the distance of the two paths: what is measured, and which bound reaches how far."""

from .painting import covered, filled, noisy
from .separation import perturbation_growth, step_stretch

__all__ = ["covered", "filled", "noisy", "perturbation_growth", "step_stretch"]
