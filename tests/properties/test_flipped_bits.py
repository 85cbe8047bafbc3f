"""Whatever bit of a file is flipped, reading it gives the same numbers or an error."""

import io
import json
import shutil
from contextlib import redirect_stdout

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import evidentia as ev
from evidentia.checkpoint import results
from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.checkpoint.journal import Journal
from evidentia.checkpoint.packing import pack
from evidentia.cli import main
from evidentia.fleet import FleetRecord
from evidentia.fleet import folder as fleets
from evidentia.model.outside.record import Record
from evidentia.report import write_results
from evidentia.results.comparing import compare
from evidentia.service.bundle import bundled, unbundled
from tests.evidence_factory import make_evidence
from tests.properties.examples import ODD, changed, examples, for_all, paths_of

MODEL = ev.models.linear_regression(1)
DATA, _ = MODEL.simulate(40, seed=0)
SETTINGS = {"seed": "0", "method": "None"}


def everything(content):
    """All that a value holds, with all digits."""
    skeleton = pack(content, arrays := [])
    return json.dumps(skeleton), [(array.dtype.str, array.shape, array.tobytes()) for array in arrays]


def fleet_record(name):
    rng = np.random.default_rng(len(name))
    draws = {"w": rng.normal(size=(5, 2)).astype(np.float32), "b": rng.normal(size=5).astype(np.float32)}
    one = ev.FleetEvidence(
        "linear", -12.5, 0.25, 50, 7, 0.5,
        {"w": rng.normal(size=2), "b": rng.normal(size=())}, {"w": np.ones(2), "b": np.ones(())},
        draws, {"way": "batched", "ess": 40.0}, {"few": "too few"},
    )  # fmt: skip
    return FleetRecord(name, {"linear": one}, {"other": ev.DataError("too few rows")})


def write_fleet(folder):
    with fleets.FleetFolder(folder, SETTINGS) as kept:
        for name in ("a", "bb"):
            kept.keep(fleet_record(name), "hash")


def read_fleet(folder):
    with fleets.FleetFolder(folder, SETTINGS) as kept:
        found = [kept.find(name, "hash", ("linear", "other")) for name in ("a", "bb")]
    return [one and (everything(one.evidences["linear"]), repr(one.errors["other"])) for one in found]


def write_evaluations(folder):
    record = Record(folder, ("x", "y"))
    rng = np.random.default_rng(0)
    record.append(rng.normal(size=(6, 2)), rng.normal(size=6))
    record.append(rng.normal(size=(4, 2)), rng.normal(size=4))
    record.close()


def read_evaluations(folder):
    record = Record(folder, ("x", "y"))
    try:
        return [everything(entry) for entry in zip(*map(list, record.read()), strict=True)]
    finally:
        record.close()


def write_report(folder):
    evidences = {"a": make_evidence(-1000.25), "b": make_evidence(-1001.5)}
    write_results(folder, evidences, compare(evidences), title="two")
    for path in folder.iterdir():  # evidences have a test of their own; the others are not read again
        if path.name != "results.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def read_report(folder):
    with redirect_stdout(io.StringIO()) as shown:
        if main(["compare", str(folder), "--json"]):
            raise ev.DataError("refused")
    return shown.getvalue()


def write_journal(folder):
    folder.mkdir()
    journal = Journal(folder / "updates.jsonl")
    for number in range(3):
        journal.append({"num_observations": number, "seconds": 0.1 * number})
    (folder.parent / "ends.json").write_text(json.dumps(journal.commit()))


def read_journal(folder):
    ends = json.loads((folder.parent / "ends.json").read_text())
    Journal(folder / "updates.jsonl", {name: tuple(end) for name, end in ends.items()})
    return (folder / "updates.jsonl").read_bytes()


def write_streams(folder):
    fleet = ev.OnlineFleet(MODEL)
    fleet.update({"a": DATA})
    fleet.save(folder)


def online():
    found = ev.Online(MODEL, ev.SGAIS(num_particles=16))
    found.update(DATA)
    return found


def known_of(one):
    return everything({"log_evidence": one.log_evidence, "posterior": dict(one.evidence().weighted)})


def write_average(folder):
    ev.ModelAverage({"a": online(), "b": online()}).save(folder)


def read_average(folder):
    return known_of(ev.ModelAverage.load(folder, {"a": MODEL, "b": MODEL}).onlines["a"])


def write_service(folder):
    content = {"keys": ["a", "b"], "arrays": [np.linspace(0, 1, 7), np.arange(6).reshape(2, 3)]}
    with CheckpointFolder(folder) as kept:
        kept.write({"monitors": bundled(content), "texts": "{}"}, {"rows": 7})


STORES = {
    "service": (write_service, lambda folder: everything(unbundled(read(folder)[0]["monitors"], {}))),
    "online": (lambda folder: online().save(folder), lambda folder: known_of(ev.Online.load(folder, MODEL))),
    "average": (write_average, read_average),
    "fleet": (write_fleet, read_fleet),
    "evaluations": (write_evaluations, read_evaluations),
    "results": (write_report, read_report),
    "journal": (write_journal, read_journal),
    "streams": (write_streams, lambda folder: everything(ev.OnlineFleet.load(folder, MODEL)["a"].state)),
    "evidence": (
        lambda folder: make_evidence().save(folder),
        lambda folder: everything(
            dict(vars(ev.load(folder))) | {"method": "", "trajectory": ev.load(folder).to_dict()}
        ),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(one, marks=[pytest.mark.slow] if one in ("online", "average") else []) for one in STORES],
)
@examples(many=2000, few=60)
def test_a_flipped_bit_gives_the_same_or_an_error(count, kind, tmp_path):
    write, reread = STORES[kind]
    write(tmp_path / "store")
    known = reread(tmp_path / "store")
    files = [
        path for path in sorted((tmp_path / "store").rglob("*")) if path.is_file() and path.stat().st_size
    ]
    assert files

    @for_all(st.tuples(st.sampled_from(files), st.integers(0, 2**40)), count)
    def holds(found):
        path, place = found
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[place // 8 % len(whole)] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            now = reread(tmp_path / "store")
        except ev.EvidentiaError:
            return
        finally:
            path.write_bytes(whole)
        if kind == "evaluations":  # the last ones may be evaluated again
            assert now == known[: len(now)] and len(now) >= len(known) - 1
        else:
            assert now == known


# --- Forged: with the right checksum -------------------------------------------------------------


def use(evidence):
    """What a user does with a result that was loaded."""
    repr(evidence), evidence.verdict, evidence._repr_html_(), ev.compare({"one": evidence})
    json.dumps(evidence.to_dict(), allow_nan=False)


@pytest.mark.filterwarnings("ignore")
@examples(many=2000, few=100)
def test_a_forged_result_is_an_error_or_can_be_used(count, tmp_path):
    make_evidence(diagnostics={"rhat": 1.5, "values": np.eye(2)}, method=ev.SGAIS()).save(tmp_path)
    use(ev.load(tmp_path))
    index = tmp_path / results.INDEX
    written = json.loads(index.read_bytes())

    @for_all(
        st.tuples(
            st.sampled_from(paths_of(written["content"])),
            st.one_of(st.none(), ODD.map(lambda odd: lambda _: odd)),
        ),
        count,
    )
    def holds(found):
        path, change = found
        try:
            content = changed(written["content"], path, change)
            index.write_text(json.dumps({**written, "content": content, "sha256": results._digest(content)}))
        except ValueError:  # NaN, which is in no file of ours
            return
        try:
            use(ev.load(tmp_path))
        except (ev.CheckpointError, ev.ConfigurationError):
            return


TEXTS = st.sampled_from(
    ["", "3", "null", "[]", "{}", '"a"', '{"w": 3}', '{"w": "x"}', '{"w": [[1], 2]}', "[" * 5000, "{"]
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "column", [*fleets.TEXTS, "draws", "error", "model_name", "log_evidence", "seed", "response"]
)
def test_a_forged_record_of_a_fleet_is_an_error_or_can_be_used(column, tmp_path):
    write_fleet(tmp_path)
    (part,) = tmp_path.glob("part-*")
    table = pq.read_table(part)

    @for_all(st.one_of(st.none(), TEXTS), 15)
    def holds(text):
        kind = table.schema.field(column).type
        values = table[column].to_pylist()
        forged = (
            3
            if str(kind) in ("double", "int64")
            else text and text.encode()
            if str(kind) == "binary"
            else text
        )
        array = pa.array([None if text is None else forged, *values[1:]], kind)
        changed = table.set_column(table.schema.get_field_index(column), column, array)
        for path in tmp_path.glob("part-*"):
            path.unlink()
        pq.write_table(changed, tmp_path / "new")
        data = (tmp_path / "new").read_bytes()
        (tmp_path / f"part-000000-{fleets._digest(data)[:16]}.parquet").write_bytes(data)
        try:
            with fleets.FleetFolder(tmp_path, SETTINGS) as kept:
                found = kept.find("a", "hash", ("linear", "other"))
        except ev.CheckpointError:
            return
        if found is not None:
            repr(found), [repr(one) for one in found.evidences.values()]
