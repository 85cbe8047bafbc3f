"""Verdicts: from signs, errors and stops to a word; in results, comparisons and JSON."""

import json
import math

import pytest

import evidentia as ev
from evidentia.results.verdict import read_verdict, verdict_of
from tests.evidence_factory import make_evidence

HEAVY = {"heavy weights": "softmax regression: the weights are heavy. Use more particles."}


@pytest.mark.parametrize(
    ("changes", "word", "reason"),
    [
        ({}, "trusted", "no sign of trouble"),
        ({"signs": HEAVY}, "doubtful", "the weights are heavy. Use more particles."),
        ({"completed": False}, "doubtful", "stopped early"),
        ({"standard_error": math.nan}, "doubtful", "no standard error. Run other seeds"),
        ({"signs": {"infinite variance": "it is infinite."}}, "failed", "it is infinite."),
        ({"standard_error": math.inf}, "failed", "standard error of inf. Check the data"),
        ({"log_evidence": -math.inf, "signs": HEAVY}, "failed", "the log evidence is -inf"),
    ],
)
def test_the_word_and_the_reason(changes, word, reason):
    trajectory = make_evidence().trajectory
    found = make_evidence(**changes, trajectory=trajectory).verdict
    assert found.word == word
    assert reason in found.reason
    assert str(found) == f"{word}: {found.reason}"


def test_the_gravest_sign_gives_the_reason_and_the_others_are_named():
    signs = {"heavy weights": "heavy.", "region too small": "small."}
    found = verdict_of(-1.0, 0.1, signs=signs, completed=True)
    assert found == ("failed", "small. (Other signs: heavy weights.)")


def test_results_show_their_verdict():
    doubtful = make_evidence(signs=HEAVY)
    assert repr(doubtful).endswith(", doubtful)")
    assert "doubtful: the weights are heavy" in doubtful._repr_html_()
    written = json.loads(json.dumps(doubtful.to_dict()))
    assert read_verdict(written["verdict"]) == doubtful.verdict


@pytest.mark.parametrize("other", [None, "trusted", {"word": "fine", "reason": ""}, {"word": "trusted"}])
def test_what_is_no_verdict_is_none(other):
    assert read_verdict(other) is None


def test_a_comparison_says_which_bayes_factors_are_doubtful():
    sides = {"poor": make_evidence(-1240.0, signs=HEAVY), "good": make_evidence(-1234.0)}
    for evidences in (sides, {name: one.to_dict() for name, one in sides.items()}):
        found = ev.compare(evidences)
        assert [verdict and verdict.word for verdict in found.verdicts] == ["trusted", "doubtful"]
        assert (
            "The log evidence of poor is doubtful, and so are its Bayes factors: the weights are heavy."
            in found.conclusion
        )
        header, (first, second) = found.cells()
        assert (header[4], first[4], second[4]) == ("against", "", "doubtful")
        assert found.to_dict()["models"]["poor"]["verdict"]["word"] == "doubtful"


def test_results_of_earlier_versions_compare_without_a_verdict():
    old = {name: value for name, value in make_evidence().to_dict().items() if name != "verdict"}
    found = ev.compare({"old": old, "new": make_evidence(-1240.0)})
    assert found.verdicts[0] is None
    assert [row[4] for row in found.cells()[1]] == ["", "extreme"]
    failed = make_evidence(-1250.0, signs={"infinite variance": "it is infinite."})
    found = ev.compare({"old": old, "harmonic": failed})
    assert [row[4] for row in found.cells()[1]] == ["", "failed"]
    assert (
        "The log evidence of harmonic failed, and its Bayes factors must not be used: it is infinite."
        in found.conclusion
    )


@pytest.mark.slow
def test_the_harmonic_mean_fails_and_too_few_prior_draws_fail():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(10_000, 0)
    with pytest.warns(ev.DiagnosticWarning):
        words = [
            ev.estimate(model, data, method=method).verdict.word
            for method in (ev.HarmonicMean(num_particles=64), ev.PriorSampling(num_particles=256))
        ]
    assert words == ["failed", "failed"]
    assert ev.estimate(model, data).verdict.word == "trusted"
