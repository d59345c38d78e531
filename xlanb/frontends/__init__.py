"""What turns programs of other systems into HLO: JAX functions, StableHLO. None of those systems is imported before it is used."""
