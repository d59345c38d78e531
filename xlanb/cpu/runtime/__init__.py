"""Native code that runs compiled programs: the fast call path, cancellation, the thread pool,
memory of results.

It is emitted by xlanb.codegen, as kernels are, and loaded once per process. Each file begins with
its invariants.
"""
