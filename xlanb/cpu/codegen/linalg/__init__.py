"""Linear algebra as kernels: the LAPACK routines that JAX calls by custom-call, and the opcodes cholesky and triangular-solve.

`custom_call` holds the table NATIVE, from the name of a LAPACK routine ("potrf") to what makes a kernel of it. A module of this package adds a row:

    NATIVE["potrf"] = Native(emit, operands=(2,), results=(2, 0), overwrites=(0,), nanoseconds=..., scratch=..., fits=...)

- `emit(call)` writes what one matrix of a batch takes. The loop over the batch stands around it, which threads share where that pays. `call.operands` and
  `call.results` are the addresses of this matrix' arrays, leaf after leaf, column-major; `call.scratch` is the thread's own; `call.options` are the custom-call's.
- `operands` and `results` tell of each array whether a matrix of the batch has a number (0), a vector (1) or a matrix (2) of it.
- `overwrites` names the operands k that the routine works on in place: their content stands in result k (the only result, of a custom-call that is no tuple) before
  `emit` runs, copied where the buffers differ.
- `fits(i)` says whether there is a kernel for these sizes and options; numbers of arrays, ranks, layouts, element types (f32, f64, s32) and
  empty arrays are seen to before. What has no kernel is a call of the runtime (see xlanb.cpu.host_call).
- `together` is how small matrices of a batch are done side by side, one in each lane of a vector (see `side_by_side`); complex numbers (c64, c128) are done so only.
- `scratch(i)` are bytes that each thread needs, `nanoseconds(i)` the time of one matrix, roughly.

OPCODES is the same table for opcodes, whose matrices may lie by rows too. `routines` imports all modules that add rows, and answers `has_kernel(i)`.

Most of the work is in routines that know no sizes (`call.routine`): a process compiles them once (see codegen.matmul.shared). They work on columns a vector of rows at a time (see `columns`).
"""
