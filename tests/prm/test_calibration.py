"""Calibration against closed forms, and through a model."""

import math

import numpy as np
import pytest

from stepgauge.prm import MCPRM, Calibration, fit_calibration
from tests.prm.tiny import tiny_prm


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_that_made_the_labels_is_found(temperature):
    random = np.random.default_rng(0)
    odds = random.normal(0, 4, 20_000)
    labels = (random.random(20_000) < 1 / (1 + np.exp(-odds / temperature))).astype(int)
    assert fit_calibration(odds, labels.tolist()).temperature == pytest.approx(temperature, rel=0.05)


def test_the_temperature_is_where_the_slope_of_the_loss_vanishes():
    odds, labels = [3.0, 2.0, -1.0, 4.0, -3.0], [1, 0, 0, 1, 1]
    t = fit_calibration(odds, labels).temperature
    slope = sum(z * (1 / (1 + math.exp(-z / t)) - y) for z, y in zip(odds, labels, strict=True))
    assert slope == pytest.approx(0, abs=1e-4)


def test_isotonic_rises_and_is_the_mean_of_pooled_neighbours():
    fitted = fit_calibration([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1], "isotonic")
    assert [fitted.probability(z) for z in (-9, 1, 2, 3, 4, 9)] == pytest.approx([0, 0, 0.5, 0.5, 1, 1])


@pytest.mark.parametrize(
    ("odds", "labels", "method", "message"),
    [
        ([1.0], [1, 0], "temperature", "one label a score"),
        ([1.0, 2.0], [1, 1], "temperature", "0 and 1"),
        ([1.0, float("nan")], [1, 0], "temperature", "finite"),
        ([1.0, 2.0], [1, 0], "magic", "method"),
        ([5.0, -5.0], [0, 1], "temperature", "do not rank"),
    ],
)
def test_what_cannot_be_fitted_is_refused(odds, labels, method, message):
    with pytest.raises(ValueError, match=message):
        fit_calibration(odds, labels, method)


def test_extreme_log_odds():
    cool = Calibration("temperature", 0.1)
    assert (cool.probability(-1e5), cool.probability(1e5)) == (0.0, 1.0)


@pytest.mark.parametrize(
    "text", ["{}", "[]", "no json", '{"method": "magic", "temperature": 1, "knots": [], "levels": []}']
)
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ValueError, match="calibration|Calibration"):
        Calibration.load(tmp_path / "c.json")


def test_a_model_is_calibrated_by_the_file_beside_it(tmp_path):
    folder = tiny_prm("pure")[0]
    raw = MCPRM(folder, device="cpu")
    steps = ["2 + 2 = 4.", "So 5."]
    odds = [detail["log_odds"] for detail in raw.score(steps).details]
    for made in (Calibration("temperature", 2.0), Calibration("isotonic", 1.0, (-5.0, 5.0), (0.2, 0.8))):
        made.save(tmp_path / "calibration.json")
        assert Calibration.load(tmp_path / "calibration.json") == made
        scorer = MCPRM(folder, device="cpu", calibration=str(tmp_path / "calibration.json"))
        scores = scorer.score(steps)
        assert scores.values == pytest.approx([made.probability(z) for z in odds], abs=1e-6)
        assert scores.summary["threshold"] == 0.5  # a probability now, no longer a signed score
        assert scorer.fingerprint != raw.fingerprint
