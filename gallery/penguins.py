# %% [markdown]
# # What tells penguins apart?
#
# **The question.** Three species of penguins live on three islands. Which measurements does it
# take to know the species, and what does the mass of a penguin depend on: its species, its sex,
# its island, or just its size?
#
# The table `penguins` has 344 birds, some with missing values (Gorman, Williams, Fraser 2014;
# Horst, Hill, Gorman 2020). Set `EVIDENTIA_DATA` to a folder with `tables/penguins.csv`; otherwise
# it is downloaded from the repository of palmerpenguins.

# %%
import os
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import evidentia as ev
from evidentia.display.plots import COLORS

ORIGIN = "https://raw.githubusercontent.com/allisonhorst/palmerpenguins/main/inst/extdata/penguins.csv"
folder = os.environ.get("EVIDENTIA_DATA")
source = (
    Path(folder) / "tables" / "penguins.csv" if folder else urllib.request.urlopen(ORIGIN)
)
penguins = pd.read_csv(source)
print(penguins.isna().sum()[lambda count: count > 0])

# %% [markdown]
# **Missing values.** A regression leaves out the rows that miss a value in its own columns, and
# warns. Models can be compared only on the same rows, so incomplete birds go first.

# %%
penguins = penguins.dropna(subset=["bill_length_mm", "sex"])
print(f"{len(penguins)} complete birds")

# %% [markdown]
# **Mass.** All sub-models of a formula, with an interaction of species and sex. A model with the
# interaction has both of its parts.

# %%
formula = "body_mass_g ~ species * sex + island + flipper_length_mm + bill_length_mm + bill_depth_mm"
selection = ev.select_terms(formula, penguins)
print(selection)

# %% alt="Inclusion probability of each term for the body mass: near one for all but the island."
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
chances = selection.inclusion_probability
ax.barh(list(chances), list(chances.values()), color=COLORS[0])
ax.axvline(0.5, color="black", linewidth=1, linestyle="--")
ax.invert_yaxis()
ax.set_xlabel("inclusion probability, given the data")
plt.show()

# %% [markdown]
# Species, sex and size all count, and the sexes differ by more in some species than in others. The
# island does not: once the species is known, where a penguin lives says nothing about its mass.
#
# **Species.** A categorical response has one set of coefficients for each species but the first.
# Its evidence is no integral that can be looked up: `estimate` samples the posterior, and the log
# evidence has a standard error.

# %%
formulas = {
    "nothing": "species ~ 1",
    "sex": "species ~ sex",
    "bill length": "species ~ bill_length_mm",
    "bill length, sex": "species ~ bill_length_mm + sex",
    "bill length and depth": "species ~ bill_length_mm + bill_depth_mm",
}
evidences = {
    name: ev.estimate(ev.Regression(formula, "categorical"), penguins)
    for name, formula in formulas.items()
}
print(ev.compare(evidences))

# %% [markdown]
# Sex alone says nothing about the species, of which each has as many males as females. Beside the
# bill length it does: males have longer bills in all species, so the same bill means another
# species in a male. Length and depth of the bill together are far better than both.
#
# **The priors.** The effects are normal(0, 2.5²) for one standard deviation of a column. With two
# bill measurements the species are nearly separated: the likelihood would rather have larger
# effects, and the evidence moves with the prior. The draws of the run answer for other widths, and
# where they do not reach, the model is run anew:

# %%
sensitivity = ev.prior_sensitivity(evidences["bill length and depth"])
print(sensitivity)

# %% alt="Change of the log evidence with the width of the priors: it rises with wider priors."
sensitivity.plot()
plt.show()

# %% [markdown]
# ## What could mislead here
#
# - The prior moves this evidence by up to 20 nats, which decides nothing here, as the formula
#   leads by over 100. If it did, one would think about the prior: how many times as probable
#   should a species become for a bill that is one standard deviation longer?
# - Leaving out incomplete birds assumes that values are missing for reasons that have nothing to
#   do with the mass or the species.
# - Two birds of a nest are not independent; the table does not say who they are.
#
# **What follows.** Mass depends on species, sex and size, not on the island. Two measurements of
# the bill nearly determine the species.
