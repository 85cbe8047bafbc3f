"""Real data for the experiments, from a folder or fetched by scikit-learn."""

import gzip
from pathlib import Path

import numpy as np

from evidentia.errors import DataError

BREAST_CANCER = "breast-cancer-wisconsin.data"
MNIST = ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz")


def breast_cancer(data_dir: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Wisconsin breast cancer, original: 9 features, from 1 to 10, and labels, 1 for malignant.

    The 16 of 699 rows with a missing feature are left out. The data come from UCI's file in
    `data_dir` (id, features, class 2 or 4; no header) or, if it is None, from OpenML's `breast-w`.

    Raises DataError if the file is missing or another one, or if the data cannot be fetched.
    """
    if data_dir is None:
        features, classes = _fetch("breast-w", f"give --data-dir, a folder with {BREAST_CANCER} of UCI")
        malignant = classes == "malignant"
    else:
        path = Path(data_dir) / BREAST_CANCER
        if not path.is_file():
            raise DataError(
                f"data_dir must have the file {BREAST_CANCER} (UCI, Wisconsin breast cancer, original); {data_dir} does not."
            )
        table = np.genfromtxt(path, delimiter=",", missing_values="?", filling_values=np.nan, ndmin=2)
        if table.shape[1] != 11 or not np.isin(table[:, -1], (2, 4)).all():
            raise DataError(
                f"{BREAST_CANCER} must have 11 columns, the last of them 2 or 4; {path} has {table.shape[1]}."
            )
        features, malignant = table[:, 1:-1], table[:, -1] == 4
    complete = ~np.isnan(features).any(axis=1)
    return features[complete], malignant[complete].astype(int)


def mnist(data_dir: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits: images (count, 784) with pixels from 0 to 255, and their digits.

    Returns the 10,000 test images from the original files in `data_dir` or, if it is None, all
    70,000 of OpenML's `mnist_784`.

    Raises DataError if the files are missing or cannot be fetched.
    """
    if data_dir is None:
        images, digits = _fetch("mnist_784", f"give --data-dir, a folder with {MNIST[0]} and {MNIST[1]}")
    else:
        images, digits = (_read_idx(Path(data_dir) / name) for name in MNIST)
    return images.reshape(len(images), -1).astype(np.float32), digits.astype(int)


def _read_idx(path: Path) -> np.ndarray:
    """Read a file in the IDX format.

    It holds two zeros, a type, the number of axes, their big-endian lengths, and the numbers.
    """
    if not path.is_file():
        raise DataError(f"data_dir must have the file {path.parent.name}/{path.name}; it is missing.")
    content = gzip.decompress(path.read_bytes())
    num_axes = content[3]
    shape = np.frombuffer(content, ">i4", num_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(shape)


def stratified_parts(labels: np.ndarray, num_parts: int, generator: np.random.Generator) -> np.ndarray:
    """The part of each row, 0 to `num_parts` - 1, stratified; sizes differ by at most one."""
    order = np.concatenate(
        [generator.permutation(np.flatnonzero(labels == one)) for one in np.unique(labels)]
    )
    parts = np.empty(len(labels), int)
    parts[order] = np.arange(len(labels)) % num_parts
    return parts


def _fetch(name: str, otherwise: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a data set of OpenML."""
    try:
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise DataError(
            f"data_dir is not given, and scikit-learn, which fetches {name} from OpenML, is not installed: {otherwise}, or "
            "pip install scikit-learn."
        ) from error
    try:
        return fetch_openml(name, version=1, as_frame=False, return_X_y=True, parser="liac-arff")
    except (OSError, ValueError) as error:
        raise DataError(
            f"data_dir is not given, and {name} could not be fetched ({error}): {otherwise}."
        ) from error
