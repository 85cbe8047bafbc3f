"""Linear models with a g for each term: the design, the integral over the g's, the effects."""
