"""The components that creditlab itself provides, through the same hook as any plug-in."""

from __future__ import annotations

from creditlab.credit.folds import All, Opposite, Same
from creditlab.credit.match import GraphState, Observation, RubricOnly, StateOnly, StateRubric
from creditlab.credit.shaping import RubricProgress
from creditlab.credit.weighting import Evidence, Uniform
from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.hookspecs import hookimpl
from creditlab.learner.settings import DeepSpeedLearner
from creditlab.policy.settings import HFModel, TinyModel, TransformersEngine
from creditlab.tracking.config import TrackingConfig


@hookimpl
def creditlab_components() -> list[type]:
    """Parts of credit, models, engines, learners and tracking."""
    match = [Observation, GraphState, StateRubric, StateOnly, RubricOnly]
    credit = [*match, Opposite, Same, All, Evidence, Uniform, RubricProgress]
    return [*credit, ALFWorld, TinyModel, HFModel, TransformersEngine, DeepSpeedLearner, TrackingConfig]
