"""What is computed of a model and rows: sums over rows, the tempered posterior, gradients,
expansions, modes, symmetry.
"""
