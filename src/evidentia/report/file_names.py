"""File names from names of models: short, distinct, and valid on every system."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

MOST_BYTES = 100  # of a name without beginning and ending; some file systems allow 143 in all


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A part of a file name for each of different names; none two are the same on any system.

    Names that would be the same, or the same but for capitals, get a hash of the name at the end.

    Example:
        >>> file_names(["y ~ x", "y ~ z"])
        {'y ~ x': 'y_x', 'y ~ z': 'y_z'}
        >>> file_names(["a b", "A_b"])
        {'a b': 'a_b-e4ef24a4e2d0a4ec', 'A_b': 'A_b-2f8df44b4a1d9bd2'}
    """
    found = {name: file_name(name) for name in names}
    while clashing := _clashing(found):
        found |= {name: f"{file_name(name)}-{_digest(name)}" for name in clashing}
    return found


def file_name(name: str) -> str:
    """A model's name as part of a file name; of a long one the beginning, and a hash.

    Example:
        >>> file_name("all 10 features")
        'all_10_features'
        >>> file_name("y ~ a * b"), file_name("y ~ a + b")  # formulas stay apart
        ('y_a_x_b', 'y_a_b')
    """
    words = name.replace("*", " x ").replace(":", " by ")
    stem = re.sub(r"[^\w.-]+|\.(?!\d)", "_", words).strip("_.") or "model"  # dots only in numbers
    if len(stem.encode()) <= MOST_BYTES:
        return stem
    digest = _digest(name)
    beginning = stem.encode()[: MOST_BYTES - len(digest) - 1].decode(errors="ignore")
    return f"{beginning}-{digest}"


def _clashing(found: dict[str, str]) -> list[str]:
    """The names whose file names some systems take for one, as they ignore capitals."""
    keys = {name: unicodedata.normalize("NFKC", stem).casefold() for name, stem in found.items()}
    counts = Counter(keys.values())
    return [name for name, key in keys.items() if counts[key] > 1]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
