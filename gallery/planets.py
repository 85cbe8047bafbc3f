# %% [markdown]
# # How many planets?
#
# **The question.** A star that moves towards us and away from us by a few metres a second may have
# a planet. It may also have spots, which turn with it. How many planets are in 120 velocities?
#
# The data are made here: a star with spots that turn in 20 days, and two planets, of 42.1 and 12.3
# days, which pull it by 3 and 1.8 m/s. The model of the spots is that of the evidence challenge of
# the third workshop on Extreme Precision Radial Velocities (Nelson et al. 2020, Astronomical
# Journal 159, 73): a Gaussian process whose kernel repeats itself while it changes.

# %%
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
from tinygp import kernels

import evidentia as ev
from evidentia.display.plots import COLORS

rng = np.random.default_rng(3)
day = np.sort(rng.uniform(0, 400, 120)).round(2)
error = rng.uniform(0.8, 1.4, 120)  # that each spectrum states, m/s
apart = np.subtract.outer(day, day)
spots = 3 * np.exp(-(apart**2) / (2 * 50**2) - 2 * np.sin(np.pi * apart / 20) ** 2)
covariance = spots + np.diag(error**2 + 0.5**2)
velocity = np.linalg.cholesky(covariance) @ rng.standard_normal(120)
velocity += 3.0 * np.sin(2 * np.pi * day / 42.1 + 1)
velocity += 1.8 * np.sin(2 * np.pi * day / 12.3 + 2)
data = {"x": day, "y": velocity - velocity.mean(), "yerr": error}
print(f"{len(day)} velocities with a standard deviation of {data['y'].std():.1f} m/s")

# %% [markdown]
# **The models.** A circular orbit of period P pulls the star by a cos(2πt/P) + b sin(2πt/P). With
# a, b ~ N(0, 3²) that is a Gaussian process, too, whose kernel is 9 cos(2πΔ/P): amplitude and
# phase of a planet are integrated out exactly, and only its period is left. The unknown constant
# is a kernel as well. The spots' time of rotation, 20 days, their life, 50 days, and the shape of
# the curve are known from photometry, as in the challenge; their amplitude is not, nor is the
# jitter, white noise beyond the stated errors (`noise_scale`).
#
# Periods are log-uniform from 2 to 200 days. Two planets have no order: the longer period is the
# larger of two such values, and the shorter is log-uniform below it.

# %%
SHORTEST, LONGEST = 2.0, 200.0


def star_with(num_planets):
    def kernel(params):
        turning = kernels.ExpSineSquared(scale=20.0, gamma=2.0)
        spots = kernels.ExpSquared(scale=50.0) * turning
        total = kernels.Constant(10.0**2) + params["spots"] ** 2 * spots
        place = 1.0  # of a period in the prior range, on the log scale
        for number in range(num_planets, 0, -1):
            place = place * params[f"place_{number}"]
            period = SHORTEST * (LONGEST / SHORTEST) ** place
            total += 3.0**2 * kernels.Cosine(scale=period)
        return total

    prior = {"spots": dist.HalfNormal(3.0), "noise_scale": dist.HalfNormal(2.0)}
    for number in range(1, num_planets + 1):
        prior[f"place_{number}"] = dist.Beta(float(number), 1.0)
    return ev.models.gaussian_process(kernel, prior=prior)


found = {
    f"{number} planets": ev.estimate(
        star_with(number), data, method=ev.AMIS(num_particles=2048)
    )
    for number in (0, 1, 2)
}
comparison = ev.compare(found)
print(comparison)

# %% [markdown]
# Two planets are e¹⁶ times as probable as one, and one e⁴⁰ times as probable as none. Their
# periods:

# %% alt="Velocities by day; below, posterior draws of the two periods about 42.1 and 12.3 days"
draws = found["2 planets"].draws(2000, seed=0)
outer = draws["place_2"]
places = {"longer": outer, "shorter": outer * draws["place_1"]}
periods = {
    name: SHORTEST * (LONGEST / SHORTEST) ** np.asarray(each, float)
    for name, each in places.items()
}
plt.rc("axes.spines", right=False, top=False)
figure, axes = plt.subplot_mosaic(
    [["data", "data"], ["shorter", "longer"]],
    figsize=(7, 5),
    layout="constrained",
    dpi=120,
)
axes["data"].errorbar(day, data["y"], error, fmt="o", color=COLORS[0], markersize=3)
axes["data"].set(xlabel="day", ylabel="velocity (m/s)")
for (name, values), truth in zip(periods.items(), (42.1, 12.3), strict=True):
    axes[name].hist(values, 40, density=True, color=COLORS[6])
    axes[name].axvline(truth, color=COLORS[1], label="truth")
    axes[name].set(xlabel=f"{name} period (days)", ylabel="density")
    axes[name].legend(frameon=False)
    low, high = np.quantile(values, [0.025, 0.975])
    print(f"{name} period: {low:.2f} to {high:.2f} days, with probability 0.95")
plt.show()

# %% [markdown]
# **The answer.** Two, and both true periods are inside their intervals.
#
# ## What could mislead here
#
# - **The model of the spots.** It made these data, with the time of rotation given. For a real
#   star, integrate over that time and the others too, by priors on them, and compare kernels:
#   velocities that a wrong kernel does not explain are explained by planets.
# - **Narrow peaks.** A period's posterior is a few tenths of a percent wide. These evidences were
#   checked by sums over grids: −307.789, −267.375 and −251.281. The last is 0.07 nats above what
#   is found, some three standard errors: without gradients, error bars of narrow peaks can be too
#   small. Beside sixteen nats this does not matter; for odds near one, use more particles.
# - **Circular orbits.** The velocity of an eccentric one has harmonics, which look like a second
#   planet with half the period. `mean=` takes any orbit, at the price of five parameters.
# - **A day.** Real nights come once a day, and periods near one day have aliases; the days here
#   are random numbers.
# - **The amplitude's prior.** Doubling the 3 m/s takes about log 4 from each planet that is there:
#   it has two amplitudes, each of which the wider prior makes half as probable.
