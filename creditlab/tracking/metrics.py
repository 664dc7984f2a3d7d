"""Names and meanings of every metric; verl's and verl-agent's names where one exists, `credit/*` for ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

# training rollouts of one update; error trajectories are counted in EPISODE_ERRORS and nowhere else
SUCCESS_RATE: Final = "episode/success_rate"
REWARD: Final = "episode/reward/mean"
LENGTH: Final = "episode/length/mean"
VALID_RATIO: Final = "episode/valid_action_ratio"
DECISIONS: Final = "episode/decisions"
TRUNCATED: Final = "episode/truncated_rate"
INEFFECTIVE: Final = "episode/ineffective_rate"
EPISODE_ERRORS: Final = "episode/errors"
CUT_RATIO: Final = "response_length/clip_ratio"
RESPONSE_LENGTH: Final = "response_length/mean"
PROMPT_LENGTH: Final = "prompt_length/mean"
PROMPT_CUT: Final = "prompt_length/cut"
TRANSITIONS: Final = "training/transitions"
# evaluation on the frozen panel; `family_success` names one family's rate
VAL_SUCCESS: Final = "val/success_rate"
VAL_SUCCESS_SE: Final = "val/success_rate_se"
VAL_TURNS: Final = "val/turns"
VAL_INEFFECTIVE: Final = "val/ineffective_rate"
VAL_INVALID: Final = "val/invalid_rate"
VAL_SCORE: Final = "val/score"
VAL_EPISODES: Final = "val/episodes"
VAL_ERRORS: Final = "val/errors"
# learner
LOSS: Final = "actor/loss"
PG_LOSS: Final = "actor/pg_loss"
KL_LOSS: Final = "actor/kl_loss"
ENTROPY: Final = "actor/entropy"
GRAD_NORM: Final = "actor/grad_norm"
CLIP_FRACTION: Final = "actor/pg_clipfrac"
PPO_KL: Final = "actor/ppo_kl"
LEARNING_RATE: Final = "actor/lr"
OPTIMIZER_STEPS: Final = "actor/optimizer_steps"
SKIPPED: Final = "actor/skipped_updates"
# seconds
TIME_WARM_START: Final = "timing_s/warm_start"
TIME_ROLLOUTS: Final = "timing_s/gen"
TIME_ENVIRONMENT: Final = "timing_s/env"
TIME_CREDIT: Final = "timing_s/adv"
TIME_LEARNER: Final = "timing_s/update_actor"
TIME_EVALUATION: Final = "timing_s/testing"
TIME_STORE: Final = "timing_s/store"
TIME_CHECKPOINT: Final = "timing_s/save_checkpoint"
TIME_STEP: Final = "timing_s/step"
TIME_TOTAL: Final = "timing_s/total"
# credit assignment; a method's own diagnostics appear under the same prefix
SINGLETON_RATE: Final = "credit/singleton_rate"
GROUP_SIZE: Final = "credit/group_size"
ZERO_FRACTION: Final = "credit/zero_fraction"
INFORMATIVE: Final = "credit/informative_groups"
ZERO_VARIANCE: Final = "credit/zero_variance_groups"
TRAINED_DECISIONS: Final = "credit/trained_decisions"
GROUPS_OF_1: Final = "credit/group_sizes/1"
GROUPS_OF_2: Final = "credit/group_sizes/2"
GROUPS_OF_3_4: Final = "credit/group_sizes/3_4"
GROUPS_OF_5_8: Final = "credit/group_sizes/5_8"
GROUPS_OF_9_16: Final = "credit/group_sizes/9_16"
GROUPS_OF_17_UP: Final = "credit/group_sizes/17_up"

CREDIT_PREFIX: Final = "credit/"

METRICS: Final[Mapping[str, str]] = {
    SUCCESS_RATE: "share of training trajectories that solved their task",
    REWARD: "mean sum of environment rewards of a training trajectory",
    LENGTH: "mean number of decisions of a training trajectory",
    VALID_RATIO: "share of training decisions whose response had the demanded format",
    DECISIONS: "number of training decisions",
    TRUNCATED: "share of training trajectories that reached the horizon",
    INEFFECTIVE: "share of training commands that were not admissible and did nothing",
    EPISODE_ERRORS: "number of trajectories lost to an environment or engine error",
    CUT_RATIO: "share of responses cut at their length limit",
    RESPONSE_LENGTH: "mean number of tokens of a response",
    PROMPT_LENGTH: "mean number of tokens of a prompt",
    PROMPT_CUT: "number of prompts shortened to fit",
    TRANSITIONS: "number of training decisions since the run began",
    VAL_SUCCESS: "share of held-out episodes that were solved",
    VAL_SUCCESS_SE: "standard error of that share, episodes of one task taken together",
    VAL_TURNS: "mean number of decisions of a held-out episode",
    VAL_INEFFECTIVE: "share of held-out commands that were not admissible and did nothing",
    VAL_INVALID: "share of held-out responses without the demanded format",
    VAL_SCORE: "mean graded score of a held-out episode, 1 for success",
    VAL_EPISODES: "number of held-out episodes that count",
    VAL_ERRORS: "number of held-out episodes lost to an error",
    PG_LOSS: "clipped policy-gradient loss; at the first step minus the mean advantage, so no measure of progress",
    LOSS: "the sum that was minimised, auxiliary losses included",
    KL_LOSS: "k3 estimate of the divergence from the reference policy, before its coefficient",
    ENTROPY: "mean entropy of the token distribution, nats",
    GRAD_NORM: "global norm of the gradient before clipping",
    CLIP_FRACTION: "share of response tokens whose ratio was clipped",
    PPO_KL: "mean of old minus new log-probability over response tokens, nats",
    LEARNING_RATE: "learning rate of the step",
    OPTIMIZER_STEPS: "number of optimizer steps of the update",
    SKIPPED: "number of updates abandoned so far because loss or gradient was not finite",
    TIME_WARM_START: "making the warm start or finding it in the cache, at step 0",
    TIME_ROLLOUTS: "rollouts of the update, environment and generation together",
    TIME_ENVIRONMENT: "the part of the rollouts spent in the environment",
    TIME_CREDIT: "credit assignment",
    TIME_LEARNER: "learner",
    TIME_EVALUATION: "evaluation",
    TIME_STORE: "writing the rollouts",
    TIME_CHECKPOINT: "writing the checkpoint",
    TIME_STEP: "the whole update",
    TIME_TOTAL: "the whole run over its sittings, at the end",
    SINGLETON_RATE: "share of decisions that met no other decision to be compared with",
    GROUP_SIZE: "mean number of decisions compared with each other",
    ZERO_FRACTION: "share of decisions whose advantage is exactly 0",
    INFORMATIVE: "share of task groups whose trajectories differ in return",
    ZERO_VARIANCE: "number of task groups whose trajectories all have the same return",
    TRAINED_DECISIONS: "number of decisions with trained tokens",
    GROUPS_OF_1: "number of these that met no other decision to be compared with",
    GROUPS_OF_2: "number of these in comparison groups of 2",
    GROUPS_OF_3_4: "number of these in comparison groups of 3 or 4",
    GROUPS_OF_5_8: "number of these in comparison groups of 5 to 8",
    GROUPS_OF_9_16: "number of these in comparison groups of 9 to 16",
    GROUPS_OF_17_UP: "number of these in comparison groups of 17 or more",
}
"""Every fixed metric name and what it means."""


def family_success(family: str) -> str:
    """Name of the held-out success rate of one task family."""
    return f"val/{family}/success_rate"


def families(metrics: Iterable[str]) -> list[str]:
    """The task families whose held-out success rate is among these metrics, sorted."""
    return sorted(name[len("val/") : -len("/success_rate")] for name in metrics if _FAMILY.match(name))


_FAMILY = re.compile(r"val/.+/success_rate", re.DOTALL)
