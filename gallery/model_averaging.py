# %% [markdown]
# # Averaging models that take turns
#
# **The question.** How uncertain is next year's unemployment? Some decades are calm and some are not, so no single noise level is right
# for long. Does an average of models that forgets, and so lets them take turns, predict better than each of them, and
# better than one model with heavy tails?
#
# The data are the unemployment rate of the Netherlands from 1800 to 2013, one of the Turing change point dataset (van den Burg and
# Williams 2020). Set `EVIDENTIA_DATA` to a folder with `tcpd/unemployment_nl.json`, or it is fetched from the dataset's
# repository. What is predicted is the change of its logarithm, in units of 0.1: about ten percent of the rate itself.

# %%
import json
import os
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist

import evidentia as ev
from evidentia.plot import COLORS, LINE_STYLES

ORIGIN = "https://raw.githubusercontent.com/alan-turing-institute/TCPD/master/datasets/unemployment_nl/"
folder = os.environ.get("EVIDENTIA_DATA")
if folder:
    text = (Path(folder) / "tcpd" / "unemployment_nl.json").read_text()
else:
    text = urllib.request.urlopen(ORIGIN + "unemployment_nl.json").read()
series = json.loads(text)
rate = np.array(series["series"][0]["raw"], np.float64)
change = 10 * np.diff(np.log(rate)).astype(np.float32)
data = {"x": change[:-1, None], "y": change[1:]}
year = np.array(series["time"]["raw"], int)[2:]
print(
    f"{len(year)} changes from {year[0]} to {year[-1]}; standard deviation {change.std():.1f}, largest {abs(change).max():.1f}"
)

# %% [markdown]
# **The models.** In each the change of a year is a linear function of the change of the year before, plus Gaussian noise of a known
# scale: 5%, 15% or 45% of the rate. For comparison there are two models that learn the scale from all years, a Gaussian and a
# Student-t.

# %%
levels = {"calm (5%)": 0.5, "lively (15%)": 1.5, "crisis (45%)": 4.5}
turns = {name: ev.models.linear_regression(1, noise_scale=scale) for name, scale in levels.items()}


def regression(x):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([1]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0, 1))
    scale = numpyro.sample("scale", dist.LogNormal(np.log(1.5), 1))
    return x @ weights + intercept, scale


def gaussian(x, y):
    mean, scale = regression(x)
    with numpyro.plate("years", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)


def student_t(x, y):
    mean, scale = regression(x)
    freedom = numpyro.sample("freedom", dist.Gamma(2, 0.1))
    with numpyro.plate("years", x.shape[0]):
        numpyro.sample("y", dist.StudentT(freedom, mean, scale), obs=y)


learning = {"Gaussian": ev.Model.from_numpyro(gaussian), "Student-t": ev.Model.from_numpyro(student_t)}

# %% [markdown]
# **Single models.** The log evidence of a model is the sum of what it predicted of each year from the years before, log p(year | years
# before): it *is* the cumulative log predictive score. So one `estimate` scores a model.

# %%
for name, model in {**turns, **learning}.items():
    evidence = ev.estimate(model, data)
    print(f"{name:>12}: {evidence.log_evidence:8.1f} ± {evidence.standard_error:.2f} nats")

# %% [markdown]
# **Averages** take in one year at a time. Without forgetting (1) that is Bayesian model averaging: its score is that of the best of its
# models, less the price of not having known which. With forgetting, what a year said of the models counts for less the longer ago it
# was: 0.95 is a memory of some twenty years.


# %%
def follow(forgetting):
    """The probabilities of the models after every year, and the log predictive density of every year."""
    average = ev.ModelAverage(
        {name: ev.Online(model) for name, model in turns.items()}, forgetting=forgetting
    )
    updates = [
        average.update({"x": data["x"][i : i + 1], "y": data["y"][i : i + 1]}) for i in range(len(year))
    ]
    shares = np.array([list(update.probabilities.values()) for update in updates])
    return shares, np.array([update.log_predictive for update in updates])


followed = {forgetting: follow(forgetting) for forgetting in (1, 0.98, 0.95, 0.9)}
for forgetting, (_, scores) in followed.items():
    print(f"average, forgetting {forgetting:4}: {scores.sum():8.1f} nats")

# %% alt="Changes of the unemployment rate by year, and below the probability of each of the three models"
figure, (upper, lower) = plt.subplots(2, 1, figsize=(7, 5.4), sharex=True, layout="constrained", dpi=120)
upper.bar(year, 10 * data["y"], color=COLORS[6], width=1)
upper.set_ylabel("change of the rate\n(log, in %)")
shares, _ = followed[0.95]
for share, name, color, style in zip(shares.T, turns, COLORS, LINE_STYLES, strict=False):
    lower.plot(year, share, color=color, linestyle=style, label=name)
lower.set_ylabel("probability, forgetting 0.95")
lower.set_xlabel("year")
lower.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
for axes in (upper, lower):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# The average turns to the calm model in the decades around 1900, to the crisis of 1914 to 1950 and back. Where is its lead over the average
# that never forgets won?

# %%
gain = followed[0.95][1] - followed[1][1]
for first, last in ((1802, 1900), (1901, 1950), (1951, 2013)):
    print(f"{first} to {last}: {gain[(year >= first) & (year <= last)].sum():6.1f} nats")

# %% [markdown]
# **The answer.** An average that forgets beats each of its three models by far. Whether it also beats one model with heavy tails depends on the forgetting: with a
# memory of fifty years (0.98) it does not, with twenty (0.95) it does. To choose the best value after seeing the scores would be to cheat. Not having chosen is
# cheap, though: give the four values equal probabilities, and the score of their mixture is that of the best less log 4 at most, without hindsight.

# %%
totals = np.array([scores.sum() for _, scores in followed.values()])
print(f"mixture of the four averages: {np.logaddexp.reduce(totals) - np.log(len(totals)):.1f} nats")

# %% [markdown]
# ## What could mislead here
#
# - **Which values are in the mixture** was still our choice, and so were the three levels.
# - **A stand-in.** A model of volatility in which the noise level moves by itself would say in one piece what the average
#   patches together. Forgetting is a cheap stand-in for such a model, not a proof that three regimes exist.
# - **Probabilities are about the models given.** They add up to one even where none is right.
# - **The data.** What is called unemployment in 1800 is a reconstruction by historians, smoother perhaps than life was.
