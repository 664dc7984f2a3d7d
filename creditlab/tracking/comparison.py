"""A comparison in W&B: a run of the suite with the table of results, the report and its figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from creditlab.plaintext import reason
from creditlab.tracking.config import TrackingConfig
from creditlab.tracking.wandb_listener import begin, end, run_id

JOB_TYPE: Final = "comparison"
TABLE: Final = "results"
"""Under which the table is logged."""


def log_comparison(
    tracking: TrackingConfig,
    suite: str,
    out: Path,
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    files: Sequence[Path],
    tags: Sequence[str] = (),
) -> list[str]:
    """Logs rows as a W&B Table and files below `out` as an artifact; returns warnings, for W&B is never a reason to fail.

    The run has the suite as its group, as the suite's runs have; a comparison that is made again continues it. `rows` all
    have the same keys.
    """
    warnings: list[str] = []
    try:
        run = begin(
            tracking,
            warnings,
            dir=out,
            id=run_id(out, resumed=True),
            name=f"{suite} comparison",
            group=suite,
            job_type=JOB_TYPE,
            tags=sorted({*tags, *tracking.tags}),
            config=dict(facts),
        )
        if run is not None:
            _log(run, suite, out, rows, files)
    except Exception as error:  # W&B itself fails in many ways, and the report is written already
        warnings.append(f"W&B has no record of the comparison: {reason(error)}")
    return warnings


def _log(run: Any, suite: str, out: Path, rows: Sequence[Mapping[str, Any]], files: Sequence[Path]) -> None:
    import wandb

    try:
        columns: list[str | int] = list(rows[0])
        run.log({TABLE: wandb.Table(columns=columns, data=[list(row.values()) for row in rows])})
        artifact = wandb.Artifact(re.sub(r"[^A-Za-z0-9._-]", "-", f"{suite}-comparison"), type=JOB_TYPE)
        for path in files:
            artifact.add_file(str(path), name=path.relative_to(out).as_posix())
        run.log_artifact(artifact)
    except Exception:
        end(run, 1)
        raise
    end(run)
