"""Real data of the experiments: from a folder, or fetched from OpenML by scikit-learn."""

import gzip
from pathlib import Path

import numpy as np

from evidentia.errors import DataError

MNIST_FILES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


def mnist(data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 784) of 0 to 255 and their digits: the 10,000 of the test part from a folder `mnist`, or all 70,000."""
    if data_dir is None:
        images, digits = _openml("mnist_784", "mnist/" + MNIST_FILES[0])
        return images.astype(np.float32), digits.astype(int)
    images, digits = (_idx(data_dir / "mnist" / name) for name in MNIST_FILES)
    return images.reshape(len(images), -1).astype(np.float32), digits.astype(int)


def _idx(path: Path) -> np.ndarray:
    """An array of bytes in the IDX format: two zeros, a type, the number of axes, their lengths, then the numbers."""
    if not path.is_file():
        raise DataError(f"data_dir must hold {path.parent.name}/{path.name}, and does not.")
    content = gzip.decompress(path.read_bytes())
    num_axes = content[3]
    shape = np.frombuffer(content, ">i4", num_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(shape)


def _openml(name: str, file: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a data set of OpenML, in its cache after the first time."""
    try:
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise DataError(
            f"the data set {name} is needed: give --data-dir, a folder with {file}, or install scikit-learn, which fetches it."
        ) from error
    try:
        found = fetch_openml(name, version=1, as_frame=False)
    except OSError as error:
        raise DataError(
            f"the data set {name} could not be fetched ({error}): give --data-dir, a folder with {file}."
        ) from error
    return found.data, found.target
