"""What commands print of results."""

import evidentia as ev
from evidentia.cli.results import show_comparison
from tests.evidence_factory import make_evidence


def test_a_long_name_has_a_line_of_its_own_beside_long_numbers(capsys):
    heights = {"all 10 features": -596_734.475, "two features missing": -729_892.147}
    show_comparison(ev.compare({name: make_evidence(log_evidence=value) for name, value in heights.items()}))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "model" and lines[1:4:2] == list(heights)
    assert max(map(len, lines)) <= 80
