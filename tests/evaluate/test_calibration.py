from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.evaluate.calibration import reliability, reliability_svg

PAIRS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=1, max_size=40)


@given(PAIRS, st.integers(1, 12))
def test_against_counting(pairs, bins):
    p, y = zip(*pairs, strict=True)
    total = 0.0
    for b in range(bins):
        inside = [(a, c) for a, c in pairs if min(int(a * bins), bins - 1) == b]
        if inside:
            gap = sum(c for _, c in inside) / len(inside) - sum(a for a, _ in inside) / len(inside)
            total += len(inside) / len(pairs) * abs(gap)
    found = reliability(p, y, bins=bins)
    assert found.ece == pytest.approx(total, abs=1e-12)
    assert found.brier == pytest.approx(sum((a - c) ** 2 for a, c in pairs) / len(pairs), abs=1e-12)
    assert sum(b.count for b in found.bins) == found.steps == len(pairs)


def test_closed_forms():
    assert reliability([1.0, 0.0], [1, 0]).ece == 0.0
    assert reliability([1.0, 0.0], [0, 1]).ece == 1.0
    assert reliability([0.75] * 4, [1, 1, 1, 0]).ece == 0.0
    assert reliability([0.9] * 4, [1, 1, 0, 0]).ece == pytest.approx(0.4)
    assert reliability([1.0], [1]).bins[0].high == 1.0  # the last bin is closed


@pytest.mark.parametrize(
    ("p", "y", "bins"), [([], [], 10), ([0.5], [], 10), ([1.5], [1], 10), ([0.5], [2], 10), ([0.5], [1], 0)]
)
def test_bad_input(p, y, bins):
    with pytest.raises(ValueError, match="reliability"):
        reliability(p, y, bins=bins)


def test_the_diagram_is_xml_and_escapes_its_title():
    image = reliability_svg(reliability([0.05, 0.95, 0.96], [0, 1, 0]), '<script>"&')
    root = ElementTree.fromstring(image)
    bars = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if e.get("fill") == "#4477aa"]
    assert [round(float(bar.get("height"))) for bar in bars] == [0, 150]
    assert "<script>" not in image
