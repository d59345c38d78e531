"""Partition a program on whole arrays into a program for one device.

Follows xla/service/spmd/spmd_partitioner.h.

driver                                     partitions the computations of a module
visitor, manual                            partition an instruction; manually partitioned code
partitioned_hlo, state, builder            a value on a device, its state, and new instructions
reshard                                    resharding, by the steps in permute, all_to_all, partial,
                                           split_and_merge and replicate
collectives, causes                        the groups of a collective, and why it is needed
elementwise, reduce, reshape, control ...  handlers, one file for each family of opcodes
"""
