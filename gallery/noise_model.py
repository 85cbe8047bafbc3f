# %% [markdown]
# # Gaussian or Student-t noise?
#
# **The question.** Does a price move with Gaussian noise, or are large moves so common that the
# noise needs heavier tails? And how much does the answer depend on a single month?
#
# The data are the monthly exchange rate of the Icelandic króna in US dollars, from 1999 to 2019,
# from the Turing change point dataset (van den Burg and Williams 2020). Set `EVIDENTIA_DATA` to a
# folder with `tcpd/usd_isk.json`; otherwise it is downloaded from the dataset's repository.

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
    text = (Path(folder) / "tcpd" / "usd_isk.json").read_text()
else:
    text = urllib.request.urlopen(ORIGIN + "usd_isk/usd_isk.json").read()
series = json.loads(text)
price = np.array(series["series"][0]["raw"], np.float64)
move = 100 * np.diff(np.log(price)).astype(np.float32)
month = np.array(series["time"]["raw"])[1:]
largest = np.argsort(-abs(move))[:5]
print(f"{len(move)} monthly moves, standard deviation {move.std():.1f}%; the largest:")
print(", ".join(f"{month[row]} {move[row]:+.1f}%" for row in largest))

# %% [markdown]
# **Three models** differ only in the noise. In each, a month's move is a drift plus noise, with
# the same priors for drift and scale. The Student-t has one more parameter, its degrees of
# freedom, with a prior that allows anything from 1 (Cauchy) to 100 (almost Gaussian). The evidence
# charges for that parameter automatically.


# %%
def model_of(noise):
    def moves(y):
        drift = numpyro.sample("drift", dist.Normal(0, 1))
        scale = numpyro.sample("scale", dist.LogNormal(np.log(3), 1))
        around = noise(drift, scale)
        with numpyro.plate("months", y.shape[0]):
            numpyro.sample("y", around, obs=y)

    return ev.Model.from_numpyro(moves)


def student_t(drift, scale):
    return dist.StudentT(numpyro.sample("freedom", dist.Gamma(2, 0.1)), drift, scale)


noises = {"Student-t": student_t, "Laplace": dist.Laplace, "Gaussian": dist.Normal}
models = {name: model_of(noise) for name, noise in noises.items()}
print(ev.compare({name: ev.estimate(model, {"y": move}) for name, model in models.items()}))

# %% [markdown]
# The Gaussian is ruled out, by nearly two hundred nats. **When** was that decided? The evidence is
# available at any month; we look at it every half year.

# %%
onlines = {name: ev.Online(model) for name, model in models.items()}
ends = [*range(6, len(move), 6), len(move)]
seen, path = month[np.array(ends) - 1], {name: [] for name in models}
for start, end in zip([0, *ends], ends, strict=False):
    for name, online in onlines.items():
        path[name].append(online.update({"y": move[start:end]}).log_evidence)
lead = {name: np.array(path[name]) - path["Gaussian"] for name in ("Student-t", "Laplace")}
for row in (*range(7, len(ends), 8), -1):
    print(
        f"{seen[row]}: Student-t ahead of the Gaussian by {lead['Student-t'][row]:6.1f} nats"
    )

# %% alt="Monthly moves of the exchange rate; below, log Bayes factors against the Gaussian"
plt.rc("axes.spines", right=False, top=False)
figure, (upper, lower) = plt.subplots(
    2, 1, figsize=(7, 5.4), sharex=True, layout="constrained", dpi=120
)
upper.bar(month.astype("datetime64[D]"), move, np.timedelta64(31, "D"), color=COLORS[6])
upper.set_ylabel("monthly move (log, in %)")
for (name, ahead), color, style in zip(lead.items(), COLORS, LINE_STYLES, strict=False):
    lower.plot(seen.astype("datetime64[D]"), ahead, style, color=color, label=name)
lower.axhline(0, color="black", linewidth=0.6)
lower.set_yscale("symlog", linthresh=10)
lower.set_yticks([-10, 0, 10, 100], ["−10", "0", "10", "100"])
lower.set(xlabel="month", ylabel="log Bayes factor against\nthe Gaussian (nats)")
lower.legend(loc="upper left", frameon=False)
plt.show()

# %% [markdown]
# For ten years the models were level. Then came the collapse of the króna in October 2008 and its
# rebound in January 2009, moves of twenty and more standard deviations of the months before: a
# hundred nats. The rest was gained in the quiet years since, in which the Gaussian still expected
# large moves. Do the other months say anything?

# %%
usual = abs(move) < 20
without = {name: ev.estimate(model, {"y": move[usual]}) for name, model in models.items()}
print(f"without {', '.join(month[~usual])}:")
print(ev.compare(without))

# %% [markdown]
# They do: ten nats for heavier tails than a Gaussian's, from ordinary months alone. But the order
# of the two heavy-tailed models is reversed: those two months had decided it.
#
# ## What the models predict for next month

# %% alt="Histogram of the monthly moves and the models' predictive densities, on a log scale"
grid = np.linspace(-90, 90, 721).astype(np.float32)
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained", dpi=120)
axes.hist(move, np.arange(-90, 91, 2), density=True, color="#C0C0C0", label="months")
for (name, online), color, style in zip(onlines.items(), COLORS, LINE_STYLES, strict=False):
    density = np.exp(online.log_predictive({"y": grid}))
    axes.semilogy(grid, density, style, color=color, label=name)
    for size in (10, 50):
        inside = abs(grid) <= size
        beyond = 1 - np.trapezoid(density[inside], grid[inside])
        how_often = f"every {1 / beyond / 12:,.1f} years" if beyond > 1e-7 else "never"
        print(f"{name:>9}: a move beyond {size}% {how_often}")
axes.set_ylim(1e-6, 1)
axes.set(xlabel="monthly move (log, in %)", ylabel="density (per %)")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# The Gaussian has widened to fit two months, and now expects moves of 10% that hardly ever occur;
# the Student-t describes ordinary months and crises at once.
#
# ## What could mislead here
#
# - **Two months.** If a Bayes factor depends on two of 246 rows, look at them first. Iceland's
#   currency was hardly traded then, and quoted at very different rates at home and abroad, so
#   these rows may say more about the source than about the market. Without them the Gaussian still
#   loses, but not by 190 nats, and another model wins.
# - **Heavy tails or changing volatility?** The months are modelled as independent. Noise whose
#   scale changes from year to year looks like heavy tails if its order is ignored; see [averaging
#   models that take turns](model_averaging.md).
# - **The prior of the scale.** All three share it, but a scale has a different meaning in each: a
#   Laplace of scale one has a standard deviation of 1.4. With a prior this wide, the effect is
#   tenths of a nat.
# - **The winner** is only the least wrong of three models.
