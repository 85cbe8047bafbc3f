# %% [markdown]
# # How many planets?
#
# **The question.** A star that moves towards us and away from us by a few metres a second may have
# a planet. It may also have spots, which turn with it. How many planets are in 80 velocities?
#
# The data are made here: a star with spots, which turns in 20 days, and two planets, of 31.4 and
# 12.3 days, which pull it by 3 and 1.8 m/s. The spots are those of the evidence challenge of the
# third workshop on Extreme Precision Radial Velocities (Nelson and others 2020, Astronomical
# Journal 159, 73), where evidences of different methods differed by factors of 10 with one planet,
# and of 100 to 1,000 with two. Here they can be checked.

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
from scipy import stats
from scipy.special import logsumexp
from tinygp import kernels

import evidentia as ev
from evidentia.display.plots import COLORS

SPAN, SHORTEST, LONGEST = 150.0, 5.0, 100.0  # days
JITTER = np.log(0.5), 1.0  # its logarithm's mean and deviation
rng = np.random.default_rng(1)
day = np.sort(rng.uniform(0, SPAN, 80)).round(2)
error = rng.uniform(0.8, 1.4, 80)  # that each spectrum states, m/s
apart = np.subtract.outer(day, day)
spots = 3 * np.exp(-(apart**2) / (2 * 50**2) - 2 * np.sin(np.pi * apart / 20) ** 2)
covariance = spots + np.diag(error**2 + 0.5**2)
velocity = np.linalg.cholesky(covariance) @ rng.standard_normal(80)
velocity += 3.0 * np.sin(2 * np.pi * day / 31.4 + 1)
velocity += 1.8 * np.sin(2 * np.pi * day / 12.3 + 2)
data = {"x": day, "y": velocity - velocity.mean(), "yerr": error}
print(f"{len(day)} velocities with a standard deviation of {data['y'].std():.1f} m/s")

# %% [markdown]
# **The models.** A circular orbit of period P pulls the star by a cos(2πt/P) + b sin(2πt/P). With
# a, b ~ N(0, 3²) that is a Gaussian process, too, whose kernel is 9 cos(2πΔ/P): amplitude and
# phase of a planet are integrated out, and only its period is left. The unknown constant is a
# kernel as well. The kernel of the spots is known, as in the challenge; the jitter, white noise
# beyond the stated errors (`noise_scale`), is not.
#
# The logarithm of each period is uniform. Planets have no order, so the posterior of two periods
# has two equal copies. One is enough if periods are one parameter, a vector, whose order is free.


# %%
def star_with(planets):
    def kernel(params):
        turning = kernels.ExpSineSquared(scale=20.0, gamma=2.0)
        total = kernels.Constant(10.0**2) + 3.0 * kernels.ExpSquared(scale=50.0) * turning
        for number in range(planets):
            total += 3.0**2 * kernels.Cosine(scale=params["period"][number])
        return total

    prior = {"noise_scale": dist.LogNormal(*JITTER)}
    if planets:
        prior["period"] = dist.LogUniform(SHORTEST, LONGEST).expand([planets]).to_event(1)
    return ev.models.gaussian_process(kernel, prior=prior)


found = {
    name: ev.estimate(star_with(planets), data)
    for planets, name in enumerate(("no planet", "1 planet", "2 planets"))
}
print(ev.compare(found))
print({name: evidence.verdict.word for name, evidence in found.items()})

# %% [markdown]
# **Is that right?** With so few parameters, the evidence is also a sum over a grid, here over all
# pairs of 684 periods, and 64 values of the jitter. The steps in frequency are a twenty-fourth of
# 1/150 days, as peaks are about that wide.

# %%
edges = np.arange(1 / LONGEST, 1 / SHORTEST + 1e-9, 1 / SPAN / 24)
period = 1 / np.sqrt(edges[:-1] * edges[1:])
log_prior = np.log(np.log(edges[1:] / edges[:-1]) / np.log(LONGEST / SHORTEST))
angle = 2 * np.pi * day[:, None] / period
waves = 3 * np.stack([np.cos(angle), np.sin(angle)], axis=2).reshape(80, -1)
nodes, widths = np.polynomial.legendre.leggauss(64)
alone = np.arange(len(period))[:, None]
pairs = np.array(list(itertools.combinations(range(len(period)), 2)))


def gained(gram, along, chosen):
    """Log-likelihood ratio of some orbits to none, with their amplitudes integrated out."""
    at = np.concatenate([2 * chosen, 2 * chosen + 1], axis=1)
    among, towards = gram[at[:, :, None], at[:, None, :]], along[at]
    best = np.linalg.solve(among, towards[..., None])[..., 0]
    return ((towards * best).sum(1) - np.linalg.slogdet(among)[1]) / 2


none, of_one, of_two = [], [], []
for log_jitter, width in zip(3.2 * nodes - 1.4, 3.2 * widths, strict=True):  # 0.01 to 6 m/s
    noise = error**2 + np.exp(2 * log_jitter)
    root = np.linalg.cholesky(10.0**2 + spots + np.diag(noise))
    y, x = np.linalg.solve(root, data["y"]), np.linalg.solve(root, waves)
    gram, along = np.eye(x.shape[1]) + x.T @ x, x.T @ y
    likelihood = -y @ y / 2 - np.log(np.diag(root)).sum() - 40 * np.log(2 * np.pi)
    none.append(likelihood + stats.norm.logpdf(log_jitter, *JITTER) + np.log(width))
    of_one.append(none[-1] + gained(gram, along, alone) + log_prior)
    of_two.append(none[-1] + gained(gram, along, pairs) + log_prior[pairs].sum(1))
one = logsumexp(of_one, axis=0)
two = logsumexp(of_two, axis=0) + np.log(2)  # in either order
exact = [logsumexp(none), logsumexp(one), logsumexp(two)]
for evidence, truth in zip(found.values(), exact, strict=True):
    print(
        f"{evidence.log_evidence:.3f} ± {evidence.standard_error:.3f} nats, grid {truth:.3f}"
    )

# %% [markdown]
# ## Which periods?
#
# With a planet of a fixed period, the grid has the Bayes factor of that planet: a periodogram. The
# first one, against no planet, is highest at the larger planet. The second one, beside a planet of
# 31.4 days, shows the other. Below are densities of both periods: histograms of the posterior
# draws, and lines from the grid.

# %% alt="Log Bayes factors of a planet by its period; below, densities of the two periods"
draws = np.sort(found["2 planets"].draws(4000, seed=0)["period"], axis=1)[:, ::-1]
share = np.exp(two - exact[2])
first = np.abs(period - 31.4).argmin()
beside = (pairs == first).any(axis=1)
other = pairs[beside].sum(axis=1) - first
after_none = one - log_prior - exact[0]
after_first = two[beside] - np.log(2) - log_prior[other] - one[first]
plt.rc("axes.spines", right=False, top=False)
figure, axes = plt.subplot_mosaic(
    [["all", "all"], [0, 1]], figsize=(7, 5), layout="constrained", dpi=120
)
axes["all"].semilogx(period, after_none, color=COLORS[0], label="first planet")
axes["all"].plot(period[other], after_first, color=COLORS[1], label="second planet")
axes["all"].axhline(0, color="black", linewidth=0.6)
axes["all"].set_xticks([5, 10, 20, 50, 100], [5, 10, 20, 50, 100])
axes["all"].set(xlabel="period (days)", ylabel="log Bayes factor (nats)", ylim=(-12, None))
axes["all"].legend(frameon=False)
for which, truth in enumerate([31.4, 12.3]):
    density = np.bincount(pairs[:, which], share, len(period)) / np.gradient(-period)
    low, middle, high = np.quantile(draws[:, which], [0.025, 0.5, 0.975])
    wide = np.linspace(2 * low - middle, 2 * high - middle, 50)
    axes[which].hist(draws[:, which], wide, density=True, color=COLORS[6])
    shown = (period > wide[0]) & (period < wide[-1])
    axes[which].plot(period[shown], density[shown], "o-", color=COLORS[0], markersize=3)
    axes[which].axvline(truth, color=COLORS[1], linestyle="--", label="truth")
    axes[which].set(xlabel="period (days)", ylabel="density")
    axes[which].legend(frameon=False)
    print(f"{low:.2f} to {high:.2f} days, with probability 0.95; truth {truth}")
plt.show()

# %% [markdown]
# **The answer.** Two. At 20 days, where the star turns, the kernel explains what is seen.
#
# ## What could mislead here
#
# - **The spots.** Their kernel made these data. For a real star, give its parameters priors, and
#   compare kernels: what a wrong kernel does not explain is explained by planets.
# - **Jitter near 0.** With a half-normal(2) prior, which reaches 0, draws hardly reach the part
#   below 0.05 m/s, a fiftieth of the posterior: three runs were 0.032 and 0.010 low, and 0.002
#   high, with errors of 0.012, 0.013 and 0.025. A log-normal prior is kinder.
# - **Longer series** have narrower peaks, which are harder to find. With 120 velocities in 400
#   days, periods from 2 to 200 and that prior, `AMIS(num_particles=2048)` gave −249.545 ± 0.014,
#   "doubtful"; a grid −249.554.
# - **Circular orbits.** The velocity of an eccentric one has harmonics, which look like a second
#   planet with half the period. `mean=` takes any orbit, at the price of five parameters.
# - **The prior of amplitudes.** Twice 3 m/s takes up to log 4 from each planet that is there.
