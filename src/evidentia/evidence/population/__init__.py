"""The annealed path: reweighting, moves, the population and its error, redrawing, diagnostics."""
