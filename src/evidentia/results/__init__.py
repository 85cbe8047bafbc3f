"""A result, and what is asked of it: comparisons, verdicts, other priors."""
