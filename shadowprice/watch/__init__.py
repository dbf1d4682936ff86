"""Watch on a served model: calibration, label drift, stability of inputs, and the shape of the curves."""
