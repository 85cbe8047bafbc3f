"""`ev.bf`: Bayes factors of the standard tests, from data or from the numbers in a paper."""

from evidentia.bf.contingency_tables import contingency as contingency
from evidentia.bf.correlations import correlation as correlation
from evidentia.bf.curves import Curves as Curves
from evidentia.bf.density_ratio import savage_dickey as savage_dickey
from evidentia.bf.designs import design as design
from evidentia.bf.factors import Anova as Anova
from evidentia.bf.factors import EffectTable as EffectTable
from evidentia.bf.factors import anova as anova
from evidentia.bf.meta_effects import meta_analysis as meta_analysis
from evidentia.bf.meta_result import MetaAnalysis as MetaAnalysis
from evidentia.bf.meta_t import meta_t_test as meta_t_test
from evidentia.bf.orders import order as order
from evidentia.bf.outcomes import Design as Design
from evidentia.bf.outcomes import Outcome as Outcome
from evidentia.bf.proportions import proportion as proportion
from evidentia.bf.result import BayesFactor as BayesFactor
from evidentia.bf.t_tests import t_test as t_test
