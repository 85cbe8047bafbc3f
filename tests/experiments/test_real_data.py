"""Real data from a folder or from OpenML, or an error that says what to do."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evidentia.errors import DataError
from experiments.real_data import BREAST_CANCER, breast_cancer, stratified_parts

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
ROWS = "1000025,5,1,1,1,2,1,3,1,1,2\n1017122,8,10,10,8,7,10,9,7,1,4\n1057013,8,4,5,1,2,?,7,3,1,4\n"


def test_rows_with_an_unknown_feature_are_left_out(tmp_path):
    (tmp_path / BREAST_CANCER).write_text(ROWS)
    features, labels = breast_cancer(tmp_path)
    assert features.tolist() == [[5, 1, 1, 1, 2, 1, 3, 1, 1], [8, 10, 10, 8, 7, 10, 9, 7, 1]]
    assert labels.tolist() == [0, 1]


def test_the_original_has_683_complete_rows():
    if not (DATA / BREAST_CANCER).is_file():
        pytest.skip(f"{DATA / BREAST_CANCER} is not there")
    features, labels = breast_cancer(DATA)
    assert features.shape == (683, 9) and labels.sum() == 239
    assert features.min() == 1 and features.max() == 10


def test_a_folder_without_the_file_or_with_another_one_is_named(tmp_path):
    with pytest.raises(DataError, match=f"must have the file {BREAST_CANCER}"):
        breast_cancer(tmp_path)
    (tmp_path / BREAST_CANCER).write_text("1,2,3\n4,5,6\n")
    with pytest.raises(DataError, match="11 columns"):
        breast_cancer(tmp_path)


def test_without_a_folder_they_are_fetched(monkeypatch):
    features = np.array([[5, 1, 1, 1, 2, 1, 3, 1, 1], [8, 4, 5, 1, 2, np.nan, 7, 3, 1.0]])
    given = {}

    def fetch_openml(name, **options):
        given.update(options, name=name)
        return features, np.array(["benign", "malignant"])

    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "sklearn.datasets", SimpleNamespace(fetch_openml=fetch_openml))
    found, labels = breast_cancer()
    assert given["name"] == "breast-w"
    assert found.tolist() == features[:1].tolist() and labels.tolist() == [0]

    def without_network(name, **options):
        raise OSError("no route to host")

    monkeypatch.setitem(sys.modules, "sklearn.datasets", SimpleNamespace(fetch_openml=without_network))
    with pytest.raises(DataError, match="no route to host.*--data-dir"):
        breast_cancer()


def test_without_scikit_learn_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match="--data-dir.*pip install scikit-learn"):
        breast_cancer()


def test_parts_are_equal_and_have_their_share_of_each_class():
    labels = np.repeat([0, 1], [355, 191])
    parts = stratified_parts(labels, 3, np.random.default_rng(0))
    assert np.bincount(parts).tolist() == [182, 182, 182]
    assert np.ptp(np.bincount(parts[labels == 1])) <= 1
    other = stratified_parts(labels, 3, np.random.default_rng(1))
    assert (parts != other).any()
