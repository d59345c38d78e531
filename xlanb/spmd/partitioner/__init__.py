"""The partitioner: from one program for the whole to one for each device (xla/service/spmd/spmd_partitioner.h).

driver                                     the computations of a module, each by a visitor
visitor, manual                            an instruction at a time; those that the program partitions by itself
partitioned_hlo, state, builder            a value on a device, what is known about it, and how new instructions are made
reshard and the steps of its ladder        permute, all_to_all, partial, split_and_merge, replicate
collectives, causes                        who takes part in a collective, and why it is there
elementwise, reduce, reshape, control ...  handlers, a file for each family of opcodes
"""
