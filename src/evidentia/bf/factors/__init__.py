"""Analysis of variance by Bayes factors (Rouder et al. 2012)."""

from evidentia.bf.factors.analysis import anova as anova
from evidentia.bf.factors.compared_models import Anova as Anova
from evidentia.bf.factors.effect_table import EffectTable as EffectTable
