"""The components that creditlab itself provides, through the same hook as any plug-in."""

from __future__ import annotations

from creditlab.hookspecs import hookimpl
from creditlab.learner.settings import DeepSpeedLearner
from creditlab.policy.settings import TinyModel, TransformersEngine


@hookimpl
def creditlab_components() -> list[type]:
    """Models, engines, learners and tracking."""
    return [TinyModel, TransformersEngine, DeepSpeedLearner]
