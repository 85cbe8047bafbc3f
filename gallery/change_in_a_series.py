# %% [markdown]
# # A change in a river
#
# **The question.** The yearly flow of the Nile at Aswan was measured from 1871 to 1970. Did it
# change, in which year, and how soon could an observer have known?
#
# The series is part of the Turing change point dataset (van den Burg and Williams 2020), in which
# five annotators marked by eye where each series changes. Set `EVIDENTIA_DATA` to a folder with
# `tcpd/nile.json` and `tcpd/annotations.json`; otherwise the files are downloaded from the
# dataset's repository.

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
from evidentia.display.plots import COLORS

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
print(f"{len(flow)} years; flow from {flow.min():.0f} to {flow.max():.0f} · 10⁸ m³ a year")
print("marked by the annotators:", [[int(year[row]) for row in rows] for rows in marks])

# %% [markdown]
# **The model** of the years between two changes: independent and Gaussian, with unknown mean and
# scatter. The priors express rough knowledge of a large river, in 10⁸ m³ a year.


# %%
def steady_river(uncertainty):
    def years(flow):
        mean = numpyro.sample("mean", dist.Normal(1000, uncertainty))
        scatter = numpyro.sample("scatter", dist.LogNormal(np.log(150), 0.5))
        with numpyro.plate("years", flow.shape[0]):
            numpyro.sample("flow", dist.Normal(mean, scatter), obs=flow)

    return ev.Model.from_numpyro(years)


model = steady_river(uncertainty=300)

# %% [markdown]
# **The detector** compares, every year, the running model with copies that were restarted in
# earlier years. A false alarm rate of 0.01 means: if nothing ever changes, the first alarm comes
# after a hundred years or more on average.


# %%
def watch(model):
    detector = ev.ChangeDetector(
        ev.Online(model), false_alarm_rate=0.01, on_change="forget"
    )
    reports = [detector.update({"flow": flow[row : row + 1]}) for row in range(len(flow))]
    return reports, [report.alarm for report in reports if report.alarm]


reports, alarms = watch(model)
for alarm in alarms:
    first, last = (int(year[row]) for row in alarm.interval)
    print(
        f"alarm after {year[alarm.num_observations - 1]}: a change with {year[alarm.row]},"
    )
    print(
        f"between {first} and {last}; log Bayes factor so far {alarm.log_bayes_factor:.1f} nats"
    )

# %% alt="Nile flow by year with the change of 1899; below, the log e-value passes its threshold"
plt.rc("axes.spines", right=False, top=False)
figure, (upper, lower) = plt.subplots(
    2, 1, figsize=(7, 5.4), sharex=True, layout="constrained", dpi=120
)
upper.plot(year, flow, "o-", color=COLORS[6], markersize=3, linewidth=0.8, label="flow")
for start, end in itertools.pairwise([0, *(alarm.row for alarm in alarms), len(flow)]):
    upper.hlines(flow[start:end].mean(), year[start], year[end - 1], color=COLORS[0])
upper.hlines([], 0, 0, color=COLORS[0], label="mean of a segment")
for height, rows in enumerate(marks):
    for row in rows:
        upper.plot(year[row], 400 + 50 * height, "^", color=COLORS[1], markersize=7)
upper.plot([], [], "^", color=COLORS[1], label="an annotator's mark")
upper.set_ylabel("flow (10⁸ m³ a year)")
lower.plot(year[1:], [report.log_e_value for report in reports[1:]], color=COLORS[0])
lower.axhline(np.log(100), color=COLORS[1], linestyle="--", label="alarm: log(1 / rate)")
for alarm in alarms:
    for axes in (upper, lower):
        axes.axvspan(*year[list(alarm.interval)], color=COLORS[5], alpha=0.3, linewidth=0)
lower.set(xlabel="year", ylabel="log e-value (nats)")
for axes in (upper, lower):
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
plt.show()

# %% [markdown]
# **The answer.** Yes, it changed in 1899, as three of the five annotators marked, and this was
# clear by 1902. The shaded years are the 95% interval of the change. In 1902 the first dam at
# Aswan was completed, and rainfall over East Africa had decreased before: the alarm cannot tell
# which was the cause.
#
# **In retrospect**, the evidence of the whole series shows how strongly it supports a change. Both
# models describe the same hundred years: one river, or two, the second from the year of the alarm.

# %%
row = alarms[0].row
parts = [ev.estimate(model, {"flow": part}) for part in (flow, flow[:row], flow[row:])]
whole, before, after = (part.log_evidence for part in parts)
error = np.sqrt(sum(part.standard_error**2 for part in parts))
print(f"log evidence of one river: {whole:.2f} nats")
print(f"of two: {before + after - whole:.2f} ± {error:.2f} nats more,")
print(f"less log 99 = {np.log(99):.2f} nats for having chosen the year")

# %% [markdown]
# ## What could mislead here
#
# - **The prior determines the delay.** A restarted copy must learn the mean again, and pays for
#   every value that its prior allowed. Try another prior before you trust a date; here, a mean
#   with three times the prior uncertainty:

# %%
for alarm in watch(steady_river(uncertainty=900))[1]:
    print(
        f"alarm after {year[alarm.num_observations - 1]}: a change with {year[alarm.row]}"
    )

# %% [markdown]
# On this series it makes no difference: the change is large under both priors.
#
# - **Independent years.** River flow has memory: wet years follow wet years. A model without
#   memory mistakes a run of dry years for a change, and the guarantee on false alarms covers only
#   rows that follow the model.
# - **A Gaussian** is surprised by a single extreme year. If outliers are common, use
#   `tempering=0.5` or a [heavier tail](noise_model.md).
# - **A step.** The detector dates a step. For a slow decline, it would still name a year.
# - **One series.** This one is in every textbook on change points.
#   `experiments/change_detection_tcpd.py` shows how the detector does on thirty annotated series.
