"""Models side by side on one split: tuned on a part of train, fitted, measured, compared; resumed where interrupted."""

from cmtrf.evaluate.models import MODELS
from cmtrf.evaluate.result import Evaluation
from cmtrf.evaluate.runs import evaluate

__all__ = ["MODELS", "Evaluation", "evaluate"]
