"""Many devices: shardings, their propagation (Shardy) and the partitioner, with a reason for every collective.

mesh, hlo_sharding, sharding_util      what lies where: Shardy's meshes, HLO's shardings and what XLA computes of them
sdy, conversions                       shardings by axes of a mesh, and to HLO's and back
shardy/                                propagation: a module as values and factors, import, export
shardy_xla, spmd_partitioning          the two passes
partitioner/                           from one program for the whole to one for each device
"""
