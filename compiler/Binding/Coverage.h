#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Binding/BindCommon.h"

namespace mbc::compiler {

/// Which tensors of a checkpoint have been accounted for.
class Coverage {
public:
  explicit Coverage(const Checkpoint &checkpoint)
      : checkpoint(checkpoint), used(checkpoint.tensors.size()) {}

  void use(uint32_t tensor) { used[tensor] = true; }

  /// Applies `ignore` patterns. One that matches a mapped tensor is an
  /// error, and so is one that matches nothing unless it ends in `?`.
  void ignore(const std::vector<dsl::IgnorePattern> &patterns,
              dsl::Diagnostics &diagnostics);

  /// Accounts for scales of activations beside quantised weights; how many.
  size_t activationScales();

  /// Accounts for the tied copies that the source holds, and adds the
  /// comparison of each with its owner (unless copies are dropped).
  void tieHfCopies(const BindInput &input, Binding &binding,
                   dsl::Diagnostics &diagnostics);

  /// What the spec's `ignore` leaves out, in the files' order.
  const std::vector<std::string> &ignored() const { return left; }

  /// What nothing has accounted for, in the files' order.
  std::vector<std::string> leftOver() const;

private:
  const Checkpoint &checkpoint;
  std::vector<bool> used;
  std::vector<std::string> left;
};

/// Whether a dotted pattern matches a whole name: `*` is one segment, `**` any
/// number of them.
bool matches(std::string_view pattern, std::string_view name);

} // namespace mbc::compiler
