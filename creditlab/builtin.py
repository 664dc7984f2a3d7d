"""The components that creditlab itself provides, through the same hook as any plug-in."""

from __future__ import annotations

from creditlab.credit.folds import All, LeaveOneOut, Opposite, OtherTrajectories, Same
from creditlab.credit.ladders import History, SimilarState, Turn
from creditlab.credit.match import (
    CoarseState,
    ExactState,
    GraphState,
    Observation,
    RubricOnly,
    ShuffledRubric,
    StateOnly,
    StateRubric,
    Task,
)
from creditlab.credit.shaping import RubricProgress, ScoreProgress
from creditlab.credit.weighting import ContextKernel, Depth, Evidence, InverseVariance, Uniform
from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.webshop.environment import WebShop
from creditlab.hookspecs import hookimpl
from creditlab.learner.settings import DeepSpeedLearner
from creditlab.policy.settings import HFModel, TinyModel, TransformersEngine
from creditlab.tracking.config import TrackingConfig


@hookimpl
def creditlab_components() -> list[type]:
    """Parts of credit, models, engines, learners and tracking."""
    states = [
        Observation,
        GraphState,
        ExactState,
        CoarseState,
        StateRubric,
        StateOnly,
        RubricOnly,
        ShuffledRubric,
        Task,
        Turn,
    ]
    folds = [Opposite, Same, All, LeaveOneOut, OtherTrajectories]
    weightings = [Evidence, Uniform, Depth, ContextKernel, InverseVariance]
    credit = [*states, History, SimilarState, *folds, *weightings, RubricProgress, ScoreProgress]
    return [*credit, ALFWorld, WebShop, TinyModel, HFModel, TransformersEngine, DeepSpeedLearner, TrackingConfig]
