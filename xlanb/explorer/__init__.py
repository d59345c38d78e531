"""Explore a compilation: stages, traces, the live stepper, lineage."""
