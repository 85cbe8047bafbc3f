"""Whatever a CSV file holds, reading it gives its values, or a DataError or ConfigurationError."""

import bz2
import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import strategies as st

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError
from tests.properties.examples import damaged, examples, for_all

NUMBERS = st.one_of(
    st.integers(-(2**31), 2**31 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
)
ODD_FIELDS = [
    "",
    "NA",
    "nan",
    "null",
    "inf",
    "-inf",
    "1e400",
    "9" * 30,
    "true",
    "False",
    "1,5",
    "0x1",
    "1_0",
    "½",
]
FIELDS = st.one_of(
    NUMBERS, NUMBERS, st.sampled_from([*ODD_FIELDS, " 1", "1 ", '"', "a\nb", "\x00", "2020-01-01"])
)
NAMES = st.sampled_from(["x", "y", "z", "", "x ", "a,b", 'a"b', "é", "1"])


@st.composite
def texts(draw):
    """A table as text, perhaps with rows of other lengths, other quotes, and other line ends."""
    width = draw(st.integers(1, 4))
    fields = draw(st.sampled_from([NUMBERS, NUMBERS, FIELDS]))
    unlike = draw(st.booleans())
    names = draw(st.lists(NAMES, min_size=width, max_size=width, unique=draw(st.booleans())))
    rows = st.lists(fields, min_size=width - unlike, max_size=width + unlike)
    buffer = io.StringIO()
    ends = draw(st.sampled_from(["\n", "\r\n"]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    csv.writer(buffer, lineterminator=ends, quoting=quoting).writerows(
        [names, *draw(st.lists(rows, max_size=5))]
    )
    return buffer.getvalue()


TEXTS = texts().map(str.encode)
ENCODED = st.tuples(texts(), st.sampled_from(["utf-8-sig", "utf-16", "utf-32-le", "latin-1"])).map(
    lambda found: found[0].encode(found[1], "replace")
)
FILES = st.one_of(TEXTS, TEXTS, ENCODED, TEXTS.flatmap(damaged), st.binary(max_size=60), st.just(b""))


def values_of(content):
    """The rows of numbers as Python reads them, with blank lines left out."""
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    lines = [line for line in csv.reader(text) if line]
    words = {"true": 1.0, "false": 0.0}
    return [[words.get(word.lower(), word) for word in line] for line in lines[1:]]


@pytest.mark.filterwarnings("ignore::evidentia.errors.EvidenceWarning")
@examples(many=20_000, few=80)
def test_a_file_gives_its_values_or_one_message(count, tmp_path):
    path = tmp_path / "rows.csv"

    @for_all(FILES, count)
    def holds(content):
        path.write_bytes(content)
        try:
            batches = list(ev.read_csv(path).batches())
        except (DataError, ConfigurationError):
            return
        rows = [
            [float(value) for value in row]
            for batch in batches
            for row in zip(*batch.arrays.values(), strict=True)
        ]
        needed = np.array(values_of(content), np.float64)
        np.testing.assert_allclose(np.array(rows).reshape(needed.shape), needed, rtol=1e-6, atol=1e-37)


SEPARATORS = {
    "rows.csv": ",",
    "rows.tsv": "\t",
    "rows.txt": ";",
    "rows.csv.gz": ",",
    "semicolons.csv.bz2": ";",
}
COMPRESS = {".gz": gzip.compress, "bz2": bz2.compress}
NOTES = st.text(st.sampled_from('a"b,;\t\n\r é#'), max_size=6)


@examples(many=20_000, few=60)
def test_quotes_never_hide_rows(count, tmp_path):
    """Some quotes are added to a text of notes; only a column of numbers beside it is read."""

    @for_all(
        st.tuples(
            st.sampled_from([*SEPARATORS]),
            st.lists(st.tuples(NUMBERS, NOTES), min_size=1, max_size=8),
            st.lists(st.integers(0, 200), max_size=2),
        ),
        count,
    )
    def holds(given):
        name, rows, places = given
        buffer, separator = io.StringIO(), SEPARATORS[name]
        csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows([("x", "note"), *rows])
        head, body = buffer.getvalue().split("\n", 1)
        for place in places:
            body = body[: place % (len(body) + 1)] + '"' + body[place % (len(body) + 1) :]
        text = f"{head}\n{body}"
        content = COMPRESS.get(name[-3:], bytes)(text.encode())
        (tmp_path / name).write_bytes(content)
        try:
            source = ev.read_csv(tmp_path / name, ["x"], sep=separator)
            found = [value for batch in source.batches() for value in batch.arrays["x"].tolist()]
        except DataError:
            return
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        _, *known = [line for line in lines if line]
        np.testing.assert_allclose(found, [float(line[0]) for line in known], rtol=1e-6, atol=1e-37)
