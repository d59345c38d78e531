"""XLA:GPU's passes, one file per pass, named as in xla/service/gpu/transforms."""
