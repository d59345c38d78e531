"""Running a partitioned program: whole arrays cut into shards, a thread or an MPI process for each device, and where they meet for collectives.

`split` cuts arrays and puts them together by an HLO sharding, `rendezvous` is where devices meet, `threads` runs them, `evaluation` is `xlanb.evaluate` on several
devices, `mpi` runs one device in each process.
"""
