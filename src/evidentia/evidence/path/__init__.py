"""The annealed path: reweighting, moves, the population and its error, drawing anew, diagnostics."""
