"""Rewrites of HLO: passes under XLA's names, pipelines, patterns and rules."""

from xlanb.transforms.base import HloPass, PassRegistry, PassResult
from xlanb.transforms.make_pass import make_pass
from xlanb.transforms.pipeline import HloPassFix, HloPassPipeline

PASSES = PassRegistry(__name__)

__all__ = ["PASSES", "HloPass", "HloPassFix", "HloPassPipeline", "PassResult", "make_pass"]
