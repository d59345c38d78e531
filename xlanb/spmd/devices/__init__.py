"""Run a partitioned program: split whole arrays into shards, run a thread or an MPI process per
device, and synchronize them for collectives.

`split` cuts arrays and puts them together by an HLO sharding, `rendezvous` is where devices meet, `threads` runs them, `evaluation` is `xlanb.evaluate` on several
devices, `mpi` runs one device in each process.
"""
