# %% [markdown]
# # Shape, colour, or both?
#
# **The question.** Twelve people solved puzzles with round and square pieces, in one colour or
# several. Does the shape change how long it takes, does the colour, and does the effect of one
# depend on the other? Each person solved all four kinds: a design with repeated measures.
#
# The data are the example `puzzles` of R's package BayesFactor (Morey and Rouder).

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import evidentia as ev
from evidentia.display.plots import COLORS

times = {
    ("round", "mono"): [49, 47, 46, 47, 48, 47, 41, 46, 43, 47, 46, 45],
    ("square", "mono"): [48, 46, 47, 45, 49, 44, 44, 45, 42, 45, 45, 40],
    ("round", "colour"): [49, 46, 47, 45, 49, 45, 41, 43, 44, 46, 45, 40],
    ("square", "colour"): [45, 43, 44, 45, 48, 46, 40, 45, 40, 45, 47, 40],
}
puzzles = pd.DataFrame(
    [
        {"ID": person, "shape": shape, "colour": colour, "RT": time}
        for (shape, colour), column in times.items()
        for person, time in enumerate(column)
    ]
)
print(puzzles.pivot_table("RT", "shape", "colour").round(2))

# %% alt="Times of each person for the four kinds of puzzles, as lines, and the mean."
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
kinds = [f"{shape},\n{colour}" for shape, colour in times]
every = np.array(list(times.values()))
axes.plot(kinds, every, color="0.8")
axes.plot(kinds, every.mean(1), "o-", color=COLORS[0], label="mean of twelve people")
axes.set_ylabel("time")
axes.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
plt.show()

# %% [markdown]
# People differ by more than puzzles do: the lines lie up to eight apart, and the means only two. A
# model that knows the person takes these differences out. `random=["ID"]` puts the person into
# all models.
#
# ## All models

# %%
anova = ev.bf.anova("RT ~ shape * colour + ID", puzzles, random=["ID"])
print(anova)

# %% alt="Probabilities of the models: shape and colour 0.52, with their interaction 0.19."
anova.plot()
plt.show()

# %% [markdown]
# Each term has an effect with a prior of its own width: Cauchy of scale 1/2 for fixed effects and
# of scale 1 for people, in standard deviations of the noise (Rouder et al. 2012). The model of the
# intercept alone, `1`, has no people in it, and is hopeless.
#
# The best model has both effects and no interaction. Any two models can be compared, and a
# question about one term is one about all models with it:

# %%
pairs = (
    ("shape + colour", "ID"),
    ("shape + colour", "colour"),
    ("shape + colour", "shape + colour + shape:colour"),
)
for model, other in pairs:
    log_bf = anova.log_bf(model, other)
    print(f"{model} against {other}: {np.exp(log_bf):.2f} ({log_bf:.2f} nats)")
for term, log_bf in anova.log_inclusion_bf.items():
    print(f"inclusion of {term}: {np.exp(log_bf):.3f}")

# %% [markdown]
# Shape and colour have moderate evidence each. They have the same Bayes factor, to all digits,
# because their sums of squares are equal. The means add up: their interaction is exactly zero.
# Even so the data are only 2.7 times as probable without one; 48 rows cannot say more.
#
# ## What happens without the people?

# %%
ignored = ev.bf.anova("RT ~ shape * colour", puzzles)
print(ignored)

# %% [markdown]
# The evidence for both effects is gone: the differences between people count as noise. A t test of
# each person's means, with one row per person, sees the pairs again:

# %%
means = puzzles.pivot_table("RT", "ID", "shape")
print(ev.bf.t_test(means["round"], means["square"], paired=True))

# %% [markdown]
# It need not agree with the ANOVA: its effect size is in standard deviations of the differences,
# which vary between people for other reasons than the noise of a single puzzle.
#
# ## What to write
#
# > In a Bayesian ANOVA with people as a random factor (default priors: scale 1/2 for fixed and 1
# > for random effects), the model with shape and colour had the highest evidence, with BF = 11.9
# > against the model with people alone. The inclusion Bayes factor across matched models was 3.8
# > for shape, 3.8 for colour, and 0.37 for their interaction.
#
# ## What could mislead here
#
# - **Models multiply.** The probabilities are those of six models that were equal before the data.
#   Whoever never believed in the interaction compares fewer.
# - **Effects that differ between people.** These models give everybody the same effect of shape.
#   Add `shape:ID` to the formula to let it vary: a term with a random factor is random. Evidence
#   for the mean effect can then be less, and is more honest where people differ.
# - **The width of the priors.** With a wider prior for the fixed effects, small effects have less
#   evidence. Ask again with other scales before a conclusion rests on a factor of three.
# - **Rows that are missing** make the design unbalanced. The Bayes factors hold then, too, but a
#   term's meaning depends on the other terms in the model.
