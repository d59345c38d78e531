"""A C++ class around an object file, with the methods of TensorFlow's tfcompile classes.

The header needs C++11 and nothing of TensorFlow. Source of the names: tensorflow/compiler/aot and
its documentation. The methods that tfcompile's class inherits (args, results, Run, error_msg) are
part of the class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from xlanb.codegen.signature import ArraySpec
from xlanb.cpu.object_code import ObjectCode, c_type, check_name, described, needed
from xlanb.errors import ArgumentError
from xlanb.lazy_dataclass import dataclass

_CPP_TYPES = {"pred": "bool"}


@dataclass(frozen=True)
class Names:
    """The names of the arrays in C++; "" if they have none.

    `args` are the first arguments, `variables` the last. After a run, variable k holds result
    `updates[k]` or, if that is None, its previous value.
    """

    args: Sequence[str]
    results: Sequence[str]
    variables: Sequence[str] = ()
    updates: Sequence[int | None] = ()


def cpp_header(code: ObjectCode, cpp_class: str, names: Names) -> str:
    """The text of a header with the class `cpp_class`, given as `Name` or `outer::inner::Name`.

    Raises:
        ArgumentError: Two arrays would have the same name.
        CompilationError: A part of `cpp_class` is not a valid C++ name.
    """
    *spaces, name = cpp_class.split("::")
    for part in (*spaces, name):
        check_name(part)
    arguments, results = code.arguments, code.results
    methods = [
        *_accessors("arg", names.args, arguments, 0),
        *_accessors("result", names.results, results, 0),
    ]
    _check_distinct(cpp_class, names)
    first = len(names.args)
    for k, variable in enumerate(names.variables):
        methods.append(_methods(f"var_{_identifier(variable)}", arguments[first + k], "arg", first + k))
    guard = "XLANB_" + re.sub(r"\W+", "_", cpp_class).upper() + "_H"
    described_arrays = [f" *   argument {k}: {described(s)}" for k, s in enumerate(arguments)]
    described_arrays += [f" *   result {k}: {described(s)}" for k, s in enumerate(results)]
    fields = {
        "module": code.signature.name,
        "triple": code.target.triple,
        "needed": needed(code),
        "arrays": "\n".join(described_arrays),
        "guard": guard,
        "entry": code.name,
        "open": "".join(f"namespace {s} {{\n" for s in spaces),
        "close": "".join(f"}}  // namespace {s}\n" for s in reversed(spaces)),
        "name": name,
        "num_args": str(len(arguments)),
        "num_results": str(len(results)),
        "num_variables": str(len(names.variables)),
        "arg_bytes": _numbers([s.byte_size for s in arguments]),
        "result_bytes": _numbers([s.byte_size for s in results]),
        "arg_names": _strings([*names.args, *names.variables]),
        "result_names": _strings(names.results),
        "temp_bytes": str(code.temp_bytes),
        "named_results": str(len(names.results)),
        "updates": _updates(names, arguments),
        "methods": "".join(methods),
    }
    return re.sub(r"@(\w+)@", lambda m: fields[m[1]], _HEADER)


def _identifier(name: str) -> str:
    """A graph's name as part of an identifier: scopes are separated by _."""
    return re.sub(r"\W", "_", name)


def _check_distinct(cpp_class: str, names: Names) -> None:
    for group in (names.args, names.results, names.variables):
        seen: dict[str, str] = {}
        for name in filter(None, group):
            other = seen.setdefault(_identifier(name), name)
            if other != name or list(group).count(name) > 1:
                raise ArgumentError(f"{cpp_class}: {other!r} and {name!r} would both be {_identifier(name)} in C++")


def _accessors(kind: str, names: Sequence[str], specs: Sequence[ArraySpec], first: int) -> list[str]:
    """Accessors of arrays, each by number and, if it has one, by name."""
    made = []
    for k, name in enumerate(names):
        made.append(_methods(f"{kind}{k}", specs[k], kind, first + k))
        if name:
            made.append(_methods(f"{kind}_{_identifier(name)}", specs[k], kind, first + k))
    return made


def _methods(called: str, spec: ArraySpec, kind: str, number: int) -> str:
    """Accessors of one array: set_x_data, x_data, x(i, j), x_size in bytes, x_count."""
    numbers = prod(spec.dimensions) * (2 if spec.shape.element_type.is_complex else 1)
    cpp = _CPP_TYPES.get(str(spec.shape.element_type), c_type(spec))
    lines = []
    if kind == "arg":
        lines.append(f"void set_{called}_data(const void* data) {{ set_arg_data({number}, data); }}")
    for const in ("", " const"):
        as_type = f"static_cast<{const.strip() + ' ' if const else ''}{cpp}*>({kind}_data({number}))"
        lines.append(f"{'const ' if const else ''}{cpp}* {called}_data(){const} {{ return {as_type}; }}")
        if spec.order is None and not spec.shape.element_type.is_complex:
            at, variables = _element_index(spec.dimensions)
            lines.append(
                f"{'const ' if const else ''}{cpp}& {called}({variables}){const} {{ return {called}_data()[{at}]; }}"
            )
    lines.append(f"int {called}_size() const {{ return {spec.byte_size}; }}")
    lines.append(f"int {called}_count() const {{ return {numbers}; }}")
    return "\n" + "".join(f"  {line}\n" for line in lines)


def _element_index(dimensions: Sequence[int]) -> tuple[str, str]:
    """(The row-major number of an element, the variables of its index.)"""
    if prod(dimensions) == 1 and len(dimensions) < 2:
        return "0", ""
    at = "dim0"
    for k, size in enumerate(dimensions[1:], 1):
        at = f"({at}) * {size} + dim{k}" if k > 1 else f"{at} * {size} + dim{k}"
    return at, ", ".join(f"size_t dim{k}" for k in range(len(dimensions)))


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values)) or "0"


def _strings(values: Sequence[str]) -> str:
    return ", ".join('"' + re.sub(r'(["\\])', r"\\\1", v) + '"' for v in values) or '""'


def _updates(names: Names, arguments: Sequence[ArraySpec]) -> str:
    """The lines that copy the new values of variables over the old ones."""
    lines = []
    for k, result in enumerate(names.updates):
        if result is not None:
            at = len(names.args) + k
            size = arguments[at].byte_size
            lines.append(f"    std::memcpy(args_[{at}], results_[{result}], {size});\n")
    return "".join(lines)


_HEADER = """\
/* @module@, compiled by xlanb for @triple@.@needed@
 *
@arrays@
 */
#ifndef @guard@
#define @guard@

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

extern "C" void @entry@(const void* const* arguments, void* const* results, void* temp);

@open@
// One call at a time: objects of several threads do not share memory.
class @name@ {
 public:
  // Which memory an object allocates: that of arguments too, or only of what Run() writes; then
  // each argument is set by set_argN_data before Run(), aligned as its elements are.
  enum class AllocMode {
    ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS,
    RESULTS_PROFILES_AND_TEMPS_ONLY,
    ARGS_RESULTS_AND_TEMPS = ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS,
    RESULTS_AND_TEMPS_ONLY = RESULTS_PROFILES_AND_TEMPS_ONLY,
  };

  static constexpr size_t kNumArgs = @num_args@;
  static constexpr size_t kNumResults = @num_results@;
  static constexpr size_t kNumVariables = @num_variables@;

  // Throws std::bad_alloc where there is no memory. Arguments and variables are zeros at first.
  explicit @name@(AllocMode mode = AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS) {
    const size_t results = Total(ResultBytes(), kNumResults);
    const bool has_args = mode == AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS;
    const size_t args = has_args ? Total(ArgBytes(), kNumArgs) : 0;
    memory_ = static_cast<char*>(std::calloc(1, results + args + kTempBytes + kAlignment));
    if (memory_ == nullptr) throw std::bad_alloc();
    char* at = memory_ + (kAlignment - reinterpret_cast<uintptr_t>(memory_) % kAlignment);
    temp_ = at;
    at = Divide(at + kTempBytes, ResultBytes(), kNumResults, results_);
    if (has_args) Divide(at, ArgBytes(), kNumArgs, args_);
  }
  ~@name@() { std::free(memory_); }
  @name@(const @name@&) = delete;
  @name@& operator=(const @name@&) = delete;

  // Computes the results from the arguments; false where one of these is not set: see error_msg().
  bool Run() {
    for (size_t i = 0; i < kNumArgs; ++i) {
      if (args_[i] == nullptr) {
        error_msg_ = "argument " + std::to_string(i) + " is not set";
        return false;
      }
    }
    error_msg_.clear();
    @entry@(args_, results_, temp_);
@updates@    return true;
  }
  const std::string& error_msg() const { return error_msg_; }
  // The code runs on the thread that calls Run().
  void set_thread_pool(const void*) {}

  size_t num_args() const { return kNumArgs; }
  size_t num_results() const { return kNumResults; }
  size_t num_variables() const { return kNumVariables; }
  void set_arg_data(size_t i, const void* data) { args_[i] = const_cast<void*>(data); }
  void* arg_data(size_t i) { return args_[i]; }
  const void* arg_data(size_t i) const { return args_[i]; }
  void** args() { return args_; }
  void* result_data(size_t i) { return results_[i]; }
  const void* result_data(size_t i) const { return results_[i]; }
  void** results() { return results_; }
  size_t arg_size(size_t i) const { return ArgBytes()[i]; }
  size_t result_size(size_t i) const { return ResultBytes()[i]; }

  // The number of an argument or variable, of a result, by its name; -1 where there is none.
  static int LookupArgIndex(const std::string& name) { return Index(ArgNames(), kNumArgs, name); }
  static int LookupResultIndex(const std::string& name) {
    return Index(ResultNames(), kNamedResults, name);
  }
  static int LookupVariableIndex(const std::string& name) {
    const int i = LookupArgIndex(name);
    return i < static_cast<int>(kNumArgs - kNumVariables) ? -1 : i;
  }
@methods@
 private:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kTempBytes = @temp_bytes@;
  static constexpr size_t kNamedResults = @named_results@;

  static const size_t* ArgBytes() {
    static const size_t bytes[] = {@arg_bytes@};
    return bytes;
  }
  static const size_t* ResultBytes() {
    static const size_t bytes[] = {@result_bytes@};
    return bytes;
  }
  static const char* const* ArgNames() {
    static const char* const names[] = {@arg_names@};
    return names;
  }
  static const char* const* ResultNames() {
    static const char* const names[] = {@result_names@};
    return names;
  }
  static int Index(const char* const* names, size_t count, const std::string& name) {
    for (size_t i = 0; i < count; ++i) {
      if (!name.empty() && name == names[i]) return static_cast<int>(i);
    }
    return -1;
  }
  static size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
  static size_t Total(const size_t* bytes, size_t count) {
    size_t total = 0;
    for (size_t i = 0; i < count; ++i) total += Aligned(bytes[i]);
    return total;
  }
  static char* Divide(char* at, const size_t* bytes, size_t count, void** parts) {
    for (size_t i = 0; i < count; ++i) {
      parts[i] = at;
      at += Aligned(bytes[i]);
    }
    return at;
  }

  char* memory_ = nullptr;
  void* temp_ = nullptr;
  void* args_[kNumArgs + 1] = {};
  void* results_[kNumResults + 1] = {};
  std::string error_msg_;
};
@close@
#endif  // @guard@
"""
