"""XLA:GPU's performance model: kernel costs before and after fusion (xla/service/gpu/model)."""
