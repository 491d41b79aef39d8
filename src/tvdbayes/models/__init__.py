"""Models: the family of the outcome and the predictor of its parameters."""
