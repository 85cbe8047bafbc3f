# %% [markdown]
# # A change in a river
#
# **The question.** The yearly flow of the Nile at Aswan was measured from 1871 to 1970. Did it change, in which year, and how
# soon could somebody who wrote it down year by year have known?
#
# The series is one of the Turing change point dataset (van den Burg and Williams 2020), in which five people have marked by eye
# where each series changes. Set `EVIDENTIA_DATA` to a folder with `tcpd/nile.json` and `tcpd/annotations.json`, or the
# files are fetched from the dataset's repository.

# %%
import itertools
import json
import os
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist

import evidentia as ev
from evidentia.plot import COLORS

ORIGIN = "https://raw.githubusercontent.com/alan-turing-institute/TCPD/master/"
folder = os.environ.get("EVIDENTIA_DATA")


def read(local, remote):
    if folder:
        return json.loads((Path(folder) / "tcpd" / local).read_text())
    return json.loads(urllib.request.urlopen(ORIGIN + remote).read())


series = read("nile.json", "datasets/nile/nile.json")
flow = np.array(series["series"][0]["raw"], np.float32)
year = np.array(series["time"]["raw"], int)
marks = read("annotations.json", "annotations.json")["nile"].values()
print(
    f"{len(flow)} years, mean flow {flow.mean():.0f}, from {flow.min():.0f} to {flow.max():.0f} (10⁸ m³ a year)"
)
print("years marked by the five annotators:", [[int(year[row]) for row in rows] for rows in marks])

# %% [markdown]
# **The model** of the years between two changes: independent and Gaussian, with unknown mean and scatter. The priors say what
# one may know of a large river beforehand, in 10⁸ m³ a year, and are not taken from the series.


# %%
def steady_river(flow):
    mean = numpyro.sample("mean", dist.Normal(1000, 300))
    scatter = numpyro.sample("scatter", dist.LogNormal(np.log(150), 0.5))
    with numpyro.plate("years", flow.shape[0]):
        numpyro.sample("flow", dist.Normal(mean, scatter), obs=flow)


model = ev.Model.from_numpyro(steady_river)

# %% [markdown]
# **The detector** compares, every year, the model that goes on with copies of it that began anew in earlier years. A false alarm rate of
# 0.01 means: if nothing ever changes, a hundred years or more on average up to the first alarm.


# %%
def watch(model):
    detector = ev.ChangeDetector(ev.Online(model), false_alarm_rate=0.01, on_change="forget")
    reports = [detector.update({"flow": flow[row : row + 1]}) for row in range(len(flow))]
    return detector, reports


detector, reports = watch(model)
alarms = [report.alarm for report in reports if report.alarm]
for alarm in alarms:
    first, last = (int(year[row]) for row in alarm.interval)
    print(
        f"alarm after {year[alarm.num_observations - 1]}: a change with {year[alarm.row]}, between {first} and {last};"
    )
    print(f"the log evidence of the years so far is {alarm.log_bayes_factor:.1f} nats lower without it")

# %% alt="Flow of the Nile by year with the change of 1899, and below the detector's log e-value, which passes its threshold"
figure, (upper, lower) = plt.subplots(2, 1, figsize=(7, 5.4), sharex=True, layout="constrained", dpi=120)
upper.plot(year, flow, "o-", color=COLORS[6], markersize=3, linewidth=0.8)
edges = [0, *(alarm.row for alarm in alarms), len(flow)]
for start, end in itertools.pairwise(edges):
    upper.hlines(flow[start:end].mean(), year[start], year[end - 1], color=COLORS[0], linewidth=2)
for annotator, rows in enumerate(marks):
    for row in rows:
        upper.plot(year[row], 400 + 50 * annotator, "^", color=COLORS[1], markersize=7)
upper.set_ylabel("flow (10⁸ m³ a year)")
upper.set_title(
    "mean of each segment (lines), the annotators' marks (triangles)", loc="left", fontsize="medium"
)
lower.plot(year[1:], [report.log_e_value for report in reports[1:]], color=COLORS[0])
lower.axhline(np.log(100), color=COLORS[1], linestyle="--", label="alarm at log(1 / rate)")
for alarm in alarms:
    for axes in (upper, lower):
        axes.axvspan(*year[list(alarm.interval)], color=COLORS[5], alpha=0.3, linewidth=0)
lower.set_xlabel("year")
lower.set_ylabel("log e-value (nats)")
lower.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
for axes in (upper, lower):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# The shaded years are the interval in which the change lies with a probability of 95%. Three of the five people saw a change, all
# in the same year. In 1902 the first dam at Aswan was completed, and rain over East Africa had become less in the years before: the
# alarm cannot tell which it was.
#
# **Looking back**, the evidence of the whole series says how much is in it. Both models are asked about the same hundred years: one
# river, or two, of which the second begins in the year of the alarm.

# %%
row = alarms[0].row
whole, before, after = (ev.estimate(model, {"flow": part}) for part in (flow, flow[:row], flow[row:]))
gain = before.log_evidence + after.log_evidence - whole.log_evidence
error = np.sqrt(sum(part.standard_error**2 for part in (whole, before, after)))
print(f"log evidence without a change: {whole.log_evidence:.2f} nats")
print(
    f"with one in {year[row]}: {gain:.2f} ± {error:.2f} nats more; less log 99 = {np.log(99):.2f} for having chosen the year"
)

# %% [markdown]
# ## What could mislead here
#
# - **The prior decides how soon.** A copy that begins anew must learn the mean again, and pays for every value that it held possible.
#   Ask with another prior before believing a date; here with a mean that is three times as uncertain beforehand:


# %%
def unknown_river(flow):
    mean = numpyro.sample("mean", dist.Normal(1000, 900))
    scatter = numpyro.sample("scatter", dist.LogNormal(np.log(150), 0.5))
    with numpyro.plate("years", flow.shape[0]):
        numpyro.sample("flow", dist.Normal(mean, scatter), obs=flow)


_, others = watch(ev.Model.from_numpyro(unknown_river))
for alarm in (report.alarm for report in others if report.alarm):
    print(
        f"prior of the mean 1000 ± 900: alarm after {year[alarm.num_observations - 1]}, a change with {year[alarm.row]}"
    )

# %% [markdown]
# On this series it makes no difference: the change is large beside either.
#
# - **Independent years.** Rivers remember: wet years follow wet years. A model without memory takes a run of dry years for a
#   change, and the guarantee on false alarms is about rows that follow the model.
# - **A Gaussian** is surprised by a single extraordinary year. Where outliers are common take a
#   [heavier tail](noise_model.md), or `tempering=0.5`.
# - **A step.** The detector dates a step. Had the flow fallen slowly, it would still name a year.
# - **One series.** This one is in every textbook of change points. How the detector does on thirty annotated series is in
#   `experiments/change_detection_tcpd.py`.
