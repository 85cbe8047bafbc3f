"""Likelihoods without gradients: evaluations and errors of AMIS beside three nested samplers.

    python benchmarks/callables.py                # half an hour on 2 cores
    python benchmarks/callables.py --seeds 2 --methods AMIS dynesty

The problems are those that these packages test themselves with, and Gaussians; their evidence is
known in closed form, by quadrature, or from the papers named. The table goes to standard output.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

import evidentia as ev


class Problem(NamedTuple):
    """A likelihood of points (many at once), the prior as a transform, and the log evidence."""

    name: str
    size: int
    log_likelihood: Callable[[np.ndarray], np.ndarray]
    prior_transform: Callable[[np.ndarray], np.ndarray]
    truth: float


class Found(NamedTuple):
    """One run."""

    log_evidence: float
    standard_error: float
    num_evaluations: int


def box(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    """A uniform prior on a cube."""
    return lambda cube: low + (high - low) * cube


def gaussian(x: np.ndarray, centre: float, width: float) -> np.ndarray:
    """A normalised Gaussian with independent coordinates."""
    size = x.shape[-1]
    return -0.5 * np.sum((x - centre) ** 2, -1) / width**2 - size * np.log(width * np.sqrt(2 * np.pi))


def correlated(x: np.ndarray) -> np.ndarray:
    """Five coordinates of deviation 0.1 with correlations of 0.9."""
    covariance = 0.01 * (0.9 * np.ones((5, 5)) + 0.1 * np.eye(5))
    squares = np.einsum("...i,ij,...j->...", x, np.linalg.inv(covariance), x)
    return -0.5 * squares - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]


def two_modes(x: np.ndarray) -> np.ndarray:
    """Two modes in five dimensions, of 0.3 and 0.7 of the mass."""
    return np.logaddexp(np.log(0.3) + gaussian(x, 1.0, 0.1), np.log(0.7) + gaussian(x, -1.0, 0.1))


def shells(x: np.ndarray) -> np.ndarray:
    """Two Gaussian shells (Feroz, Hobson, Bridges 2009, section 6.2)."""
    first = np.zeros(x.shape[-1])
    first[0] = 3.5

    def shell(centre):
        radius = np.sqrt(np.sum((x - centre) ** 2, -1))
        return -0.5 * ((radius - 2.0) / 0.1) ** 2 - np.log(0.1 * np.sqrt(2 * np.pi))

    return np.logaddexp(shell(first), shell(-first))


def eggbox(x: np.ndarray) -> np.ndarray:
    """Eighteen peaks (Feroz, Hobson, Bridges 2009, section 6.1)."""
    return (2 + np.cos(x[..., 0] / 2) * np.cos(x[..., 1] / 2)) ** 5


def rosenbrock(x: np.ndarray) -> np.ndarray:
    """A thin curved ridge; the truth is a chain of one-dimensional integrals."""
    return -np.sum((1 - x[..., :-1]) ** 2 + 100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2, -1)


def conjugate(size: int) -> float:
    """Of a Gaussian of width 0.1 at 0.7 under a standard normal prior."""
    return -0.5 * size * (np.log(2 * np.pi * 1.01) + 0.49 / 1.01)


PROBLEMS = [
    Problem("Gaussian, 5", 5, lambda x: gaussian(x, 0.7, 0.1), ndtri, conjugate(5)),
    Problem("Gaussian, 10", 10, lambda x: gaussian(x, 0.7, 0.1), ndtri, conjugate(10)),
    Problem("Gaussian, 20", 20, lambda x: gaussian(x, 0.7, 0.1), ndtri, conjugate(20)),
    Problem("correlated, 5", 5, correlated, box(-1, 1), -5 * np.log(2)),
    Problem("two modes, 5", 5, two_modes, ndtri, -2.5 * (np.log(2 * np.pi * 1.01) + 1 / 1.01)),
    Problem("shells, 2", 2, shells, box(-6, 6), -1.746),
    Problem("shells, 5", 5, shells, box(-6, 6), -5.673),
    Problem("shells, 10", 10, shells, box(-6, 6), -14.59),
    Problem("egg box, 2", 2, eggbox, box(0, 10 * np.pi), 235.856),
    Problem("Rosenbrock, 2", 2, rosenbrock, box(-5, 5), -5.8041),
    Problem("Rosenbrock, 5", 5, rosenbrock, box(-5, 5), -19.7324),
]


def amis(problem: Problem, seed: int) -> Found:
    """This library's default for such likelihoods."""
    model = ev.Model.from_callable(
        problem.log_likelihood, problem.prior_transform, num_parameters=problem.size, vectorized=True
    )
    found = ev.estimate(model, seed=seed)
    return Found(found.log_evidence, found.standard_error, int(found.diagnostics["num_evaluations"]))


def dynesty(problem: Problem, seed: int) -> Found:
    """dynesty's static sampler at its defaults."""
    from dynesty import NestedSampler

    generator = np.random.default_rng(seed)
    sampler = NestedSampler(problem.log_likelihood, problem.prior_transform, problem.size, rstate=generator)
    sampler.run_nested(print_progress=False)
    results = sampler.results
    return Found(float(results.logz[-1]), float(results.logzerr[-1]), int(np.sum(results.ncall)))


def nautilus(problem: Problem, seed: int) -> Found:
    """nautilus at its defaults, with 10,000 effective draws."""
    from nautilus import Sampler

    options = {"seed": seed, "pass_dict": False, "vectorized": True}
    sampler = Sampler(problem.prior_transform, problem.log_likelihood, problem.size, **options)
    sampler.run(verbose=False)
    return Found(float(sampler.log_z), float(sampler.n_eff**-0.5), int(sampler.n_like))


def ultranest(problem: Problem, seed: int) -> Found:
    """UltraNest's reactive sampler at its defaults."""
    from ultranest import ReactiveNestedSampler

    np.random.seed(seed)  # noqa: NPY002  (UltraNest has no other seed)
    names = [f"x{index}" for index in range(problem.size)]
    sampler = ReactiveNestedSampler(names, problem.log_likelihood, problem.prior_transform, vectorized=True)
    results = sampler.run(show_status=False, viz_callback=False)
    return Found(float(results["logz"]), float(results["logzerr"]), int(results["ncall"]))


METHODS = {"AMIS": amis, "dynesty": dynesty, "nautilus": nautilus, "ultranest": ultranest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=[each.name for each in PROBLEMS])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=10, help="runs of AMIS")
    parser.add_argument("--peer-seeds", type=int, default=2, help="runs of the others")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| problem, parameters | method | rms error | reported s.e. | within 2 s.e. | evaluations |")
    print("|---|---|--:|--:|--:|--:|")
    for problem in PROBLEMS:
        for name in arguments.methods if problem.name in arguments.problems else ():
            count = arguments.seeds if name == "AMIS" else arguments.peer_seeds
            try:
                runs = [METHODS[name](problem, seed) for seed in range(count)]
            except ImportError:
                continue
            errors = np.array([run.log_evidence - problem.truth for run in runs])
            reported = np.array([run.standard_error for run in runs])
            within = np.sum(np.abs(errors) < 2 * reported)
            evaluations = np.median([run.num_evaluations for run in runs])
            print(
                f"| {problem.name} | {name} | {np.sqrt(np.mean(errors**2)):.3f} | {np.median(reported):.3f} | "
                f"{within}/{count} | {evaluations:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
