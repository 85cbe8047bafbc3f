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
for term, chance in selection.inclusion_probability.items():
    print(
        f"{term:18s} {selection.prior_inclusion_probability[term]:.2f} before the data, {chance:.3f} after"
    )
print(pd.crosstab(penguins["species"], penguins["island"]))

# %% alt="Inclusion probability of each term for the body mass: near one for all but the island."
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
chances = selection.inclusion_probability
before = selection.prior_inclusion_probability
ax.barh(list(chances), list(chances.values()), color=COLORS[0], label="given the data")
ax.plot(
    list(before.values()), list(before), "|", color="black", markersize=14, label="before"
)
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
ax.invert_yaxis()
ax.set_xlabel("inclusion probability")
plt.show()

# %% [markdown]
# Species, sex, flippers and the depth of the bill count, the length of the bill a little, and the
# sexes differ by more in some species than in others. The island adds nothing beside the species.
# What can be known of it comes from one species: all Chinstraps live on Dream and all Gentoos on
# Biscoe; only the Adelies are on every island.
#
# **Species.** A categorical response has one set of coefficients for each species but the first.
# Its evidence has no closed form: `estimate` samples the posterior, and the log evidence has a
# standard error.

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
# Sex alone says nothing about the species, of which each has about as many males as females.
# Beside the bill length it does: males have longer bills in all species, so at a given length a
# male is more likely to be an Adelie. Length and depth of the bill together are far better.
#
# **The priors.** The effects are normal(0, 2.5²) for one standard deviation of a column. With two
# bill measurements the species are nearly separated: the likelihood increases with larger effects
# than the prior expects, and the evidence moves with the prior. What counts is the lead over the
# next formula. The draws of the runs answer for other widths; where they do not reach, the model
# is run anew:

# %%
best, next_best = (
    ev.prior_sensitivity(evidences[name])
    for name in ("bill length and depth", "bill length, sex")
)
print(best)
for factor, lead in zip(
    best.factor, best.log_evidence - next_best.log_evidence, strict=True
):
    print(f"priors {factor:4.2f} times as wide: the lead is {lead:.1f} nats")

# %% alt="Change of the log evidence with the width of the priors: it rises with wider priors."
best.plot()
plt.show()

# %% [markdown]
# ## What could mislead here
#
# - The prior moves this evidence by up to 20 nats, and the lead by less, which decides nothing
#   here. If it did, one would think about the prior: by what factor should the odds change for a
#   bill that is one standard deviation longer?
# - The first category in sorted order, Adelie, is the reference: the effects of the others, and
#   so the prior, are against it. Another reference moves the evidence of these formulas by up to 8
#   nats.
# - Leaving out incomplete birds assumes that values are missing for reasons that have nothing to
#   do with the mass or the species.
# - Two birds of a nest are not independent; the table does not say who they are.
#
# **What follows.** Mass depends on species, sex and size, not on the island. Two measurements of
# the bill nearly determine the species.
