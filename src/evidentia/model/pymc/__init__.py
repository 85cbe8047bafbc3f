"""PyMC models as NumPyro programs: the same densities, whatever package a model was written with.

PyMC and PyTensor are imported when a model of theirs is translated, not before.
"""

from evidentia.model.pymc.checks import of_bambi
from evidentia.model.pymc.program import PyMCProgram
from evidentia.model.pymc.translation import Translation, translated

__all__ = ["PyMCProgram", "Translation", "of_bambi", "translated"]
