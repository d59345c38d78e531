"""Native code that runs compiled programs: the fast entry of calls, stopping, the pool of threads,
memory of results.

It is written on xlanb.codegen, as kernels are, and loaded once in a process. Each file begins with
its invariants.
"""
