"""What ranks import, once for all of them; multiprocessing's fork server imports this module."""

import pytest  # noqa: F401
import torch

import creditlab.analysis.figures
import creditlab.evaluate
import creditlab.training.session
import creditlab.training.standalone  # noqa: F401
from creditlab.learner.learner import _import_deepspeed
from creditlab.registry import registry

torch.set_num_threads(1)
_import_deepspeed()
registry()
