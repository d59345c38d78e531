"""What happened in a compilation: stages, traces, the live stepper, lineage."""
