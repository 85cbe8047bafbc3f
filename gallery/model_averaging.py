# %% [markdown]
# # Averaging models that take turns
#
# **The question.** How uncertain is next year's unemployment? Some decades are calm and others are
# not, so no single noise level is right for long. Does a model average with forgetting, which lets
# models take turns, predict better than each of them, and better than one model with heavy tails?
#
# The data are the unemployment rate of the Netherlands from 1800 to 2013, from the Turing change
# point dataset (van den Burg and Williams 2020). Set `EVIDENTIA_DATA` to a folder with
# `tcpd/unemployment_nl.json`; otherwise it is downloaded from the dataset's repository. The models
# predict the change of the logarithm of the rate, in units of 0.1: about ten percent of the rate
# itself.

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
from evidentia.display.plots import COLORS, LINE_STYLES

ORIGIN = "https://raw.githubusercontent.com/alan-turing-institute/TCPD/master/datasets/"
folder = os.environ.get("EVIDENTIA_DATA")
if folder:
    text = (Path(folder) / "tcpd" / "unemployment_nl.json").read_text()
else:
    text = urllib.request.urlopen(ORIGIN + "unemployment_nl/unemployment_nl.json").read()
series = json.loads(text)
rate = np.array(series["series"][0]["raw"], np.float64)
change = 10 * np.diff(np.log(rate)).astype(np.float32)
data = {"x": change[:-1, None], "y": change[1:]}
year = np.array(series["time"]["raw"], int)[2:]
print(
    f"{len(year)} changes from {year[0]} to {year[-1]}, standard deviation {change.std():.1f}"
)

# %% [markdown]
# **The models.** In each, the change of a year is a linear function of the previous year's change,
# plus Gaussian noise of a known scale: 5%, 15% or 45% of the rate. For comparison, two models
# learn the scale from all years, a Gaussian and a Student-t.

# %%
levels = {"calm (5%)": 0.5, "lively (15%)": 1.5, "crisis (45%)": 4.5}
turns = {name: ev.models.linear_regression(1, noise_scale=s) for name, s in levels.items()}


def learning(noise):
    def years(x, y):
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([1]).to_event(1))
        intercept = numpyro.sample("intercept", dist.Normal(0, 1))
        around = noise(
            x @ weights + intercept, numpyro.sample("scale", dist.LogNormal(0, 1))
        )
        with numpyro.plate("years", x.shape[0]):
            numpyro.sample("y", around, obs=y)

    return ev.Model.from_numpyro(years)


def student_t(mean, scale):
    return dist.StudentT(numpyro.sample("freedom", dist.Gamma(2, 0.1)), mean, scale)


singles = {**turns, "Gaussian": learning(dist.Normal), "Student-t": learning(student_t)}

# %% [markdown]
# **Single models.** The log evidence of a model is the sum of its log predictions of each year
# from the years before, log p(year | years before): it *is* the cumulative log predictive score.
# So one `estimate` scores a model.

# %%
for name, model in singles.items():
    evidence = ev.estimate(model, data)
    print(f"{name:>12}: {evidence.log_evidence:8.1f} ± {evidence.standard_error:.2f} nats")

# %% [markdown]
# **Averages** process one year at a time. Without forgetting (1) this is Bayesian model averaging:
# its score is that of the best of its models, minus the cost of not knowing which one that is.
# With forgetting, older years count less for the probabilities of the models: 0.95 is a memory of
# some twenty years.


# %%
def follow(forgetting):
    onlines = {name: ev.Online(model) for name, model in turns.items()}
    average = ev.ModelAverage(onlines, forgetting=forgetting)
    return [
        average.update({name: column[row : row + 1] for name, column in data.items()})
        for row in range(len(year))
    ]


followed = {forgetting: follow(forgetting) for forgetting in (1, 0.98, 0.95, 0.9)}
scores = {
    forgetting: np.array([update.log_predictive for update in updates])
    for forgetting, updates in followed.items()
}
for forgetting, by_year in scores.items():
    print(f"average, forgetting {forgetting:4}: {by_year.sum():8.1f} nats")

# %% alt="Changes of the unemployment rate by year; below, the probability of each model"
plt.rc("axes.spines", right=False, top=False)
figure, (upper, lower) = plt.subplots(
    2, 1, figsize=(7, 5.4), sharex=True, layout="constrained", dpi=120
)
upper.bar(year, 10 * data["y"], color=COLORS[6], width=1)
upper.set_ylabel("change of the rate\n(log, in %)")
for name, color, style in zip(turns, COLORS, LINE_STYLES, strict=False):
    shares = [update.probabilities[name] for update in followed[0.95]]
    lower.plot(year, shares, color=color, linestyle=style, label=name)
lower.set(xlabel="year", ylabel="probability\n(forgetting 0.95)")
lower.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
plt.show()

# %% [markdown]
# The average prefers the calm model up to the 1840s and again from the 1880s to the First World
# War, and the lively one in between. The war year 1943 moves it to the crisis model, which it
# leaves only in the 1980s, later than the bars suggest. When does it gain its lead over the
# average without forgetting?

# %%
gain = scores[0.95] - scores[1]
for first, last in ((1802, 1900), (1901, 1950), (1951, 2013)):
    print(f"{first} to {last}: {gain[(first <= year) & (year <= last)].sum():6.1f} nats")

# %% [markdown]
# **The answer.** An average with forgetting beats each of its three models by far. Whether it also
# beats one model with heavy tails depends on the forgetting: with a memory of fifty years (0.98)
# it does not, with twenty (0.95) it does. Choosing the best value after seeing the scores would be
# cheating. But we need not choose: with equal probabilities for the four values, the score of
# their mixture is at most log 4 below the best, without hindsight.

# %%
totals = [by_year.sum() for by_year in scores.values()]
mixed = np.logaddexp.reduce(totals) - np.log(len(totals))
print(f"mixture of the four averages: {mixed:.1f} nats")

# %% [markdown]
# ## What could mislead here
#
# - **The values in the mixture** were still our choice, and so were the three noise levels.
# - **A stand-in.** A stochastic volatility model, whose noise level changes with time, would
#   describe in one piece what the average patches together. Forgetting is a cheap stand-in for
#   such a model, not a proof that three regimes exist.
# - **Probabilities are relative to the given models.** They add up to one even if none is right.
# - **The data.** The unemployment of 1800 is a reconstruction by historians, and perhaps smoother
#   than the reality.
