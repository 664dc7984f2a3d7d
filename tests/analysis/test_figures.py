"""The learning curve: drawn from whatever was recorded, with nothing on top of anything else."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.figure
import matplotlib.image
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from creditlab.analysis.figures import learning_curve, smooth


def records() -> list[dict[str, float]]:
    result: list[dict[str, float]] = []
    for step in range(21):
        record: dict[str, float] = {"step": step}
        if step:
            record |= {
                "episode/success_rate": 0.4 + 0.01 * step,
                "episode/length/mean": 11.0,
                "credit/singleton_rate": 0.3,
                "credit/zero_fraction": 0.2,
            }
        if step % 10 == 0:
            record |= {"val/success_rate": 0.35 + 0.01 * step, "val/success_rate_se": 0.03, "val/turns": 10.0}
        result.append(record)
    return result


def labels(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_success_its_error_and_the_warm_start_are_drawn(tmp_path: Path, drawn: list[Figure]) -> None:
    path = learning_curve(records(), tmp_path / "figures" / "curve.png", "mcgpo on alfworld")
    assert matplotlib.image.imread(path).shape[:2] == (1110, 1200)
    success, turns, credit = drawn[0].axes
    lines = {line.get_label(): line for line in success.lines}
    held_out = lines["held-out tasks, ± 1 standard error"]
    np.testing.assert_allclose(held_out.get_xydata(), [[0, 35], [10, 45], [20, 55]])
    np.testing.assert_allclose(lines["warm start 35.0 %"].get_ydata(), [35, 35])
    band = success.collections[0].get_paths()[0].get_extents()
    assert (band.ymin, band.ymax) == pytest.approx((32, 58))
    assert labels(turns) == ["training", "held-out"]
    assert labels(credit) == ["singletons", "zero advantage"]
    assert [axis.get_ylabel() for axis in drawn[0].axes] == [
        "episodes solved (%)",
        "turns per\nepisode",
        "share of\ndecisions (%)",
    ]
    assert credit.get_xlabel() == "policy updates"
    assert drawn[0].get_suptitle() == (
        "mcgpo on alfworld\nmean of the last 2 evaluations 50.0 %, +15.0 points over the warm start"
    )


def test_nothing_lies_on_anything_else(tmp_path: Path, drawn: list[Figure]) -> None:
    """Axes, legends and a title of two lines keep apart, and all of them stay on the page."""
    learning_curve(records(), tmp_path / "curve.png", "a long name of an experiment " * 4)
    (figure,) = drawn
    boxes = [axis.get_window_extent() for axis in figure.axes]
    boxes += [axis.get_legend().get_window_extent() for axis in figure.axes]
    boxes += [text.get_window_extent() for text in figure.texts if text.get_text()]
    assert len(boxes) == 7
    for index, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert not any(box.shrunk(0.98, 0.9).overlaps(other) for other in boxes[index + 1 :])


def test_a_file_of_a_running_job_is_enough(tmp_path: Path, drawn: list[Figure]) -> None:
    """No evaluation after the warm start yet, a torn last line, a lost value."""
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"step": 0, "val/success_rate": 0.3},
        {"step": 1, "episode/success_rate": 0.5},
        {"step": 2, "episode/success_rate": None},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "epis')
    learning_curve(path, tmp_path / "curve.png")
    (axis,) = drawn[0].axes
    training = next(line for line in axis.lines if line.get_label().startswith("training"))
    np.testing.assert_allclose(training.get_xydata(), [[1, 50]])
    assert drawn[0].get_suptitle() == "Learning curve"


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no success rate to draw in .*metrics\.jsonl"):
        learning_curve(tmp_path / "metrics.jsonl", tmp_path / "curve.png")
    with pytest.raises(ValueError, match="no success rate to draw in the records"):
        learning_curve([{"step": 1, "actor/lr": 0.1}], tmp_path / "curve.png")


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (learning_curve(records(), tmp_path / name).read_bytes() for name in ("a.png", "b.png"))
    assert one == two


def test_smoothing_looks_back_only() -> None:
    """By hand: means of 1, 1 2, 1 2 3, 2 3 4."""
    np.testing.assert_allclose(smooth(np.array([1.0, 2.0, 3.0, 4.0]), window=3), [1, 1.5, 2, 3])
    assert smooth(np.zeros(0)).shape == (0,)
