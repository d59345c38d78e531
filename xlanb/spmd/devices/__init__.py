"""Run a partitioned program on several devices.

split       splits whole arrays into shards by an HLO sharding, and joins shards
rendezvous  synchronizes devices for collectives
threads     runs a thread per device
mpi         runs one device in each MPI process
evaluation  implements `xlanb.evaluate` on several devices
"""
