"""XLA:GPU's performance model: what a kernel costs, before and after a producer is fused into a consumer (xla/service/gpu/model)."""
