#pragma once

#include "compiler/Binding/Bind.h"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

/// What is known of Megatron's modules without the spec: how they are cut,
/// where they stand, which shapes Megatron's arguments give their parameters.
/// A second statement of the same facts, so that a slip in one of them shows;
/// findings are warnings, since a model may have modules of its own, but for
/// what no model can be: an argument that contradicts every tensor.
namespace mbc::compiler {

/// `shard`, `stage` and `dtype` against the parameter's name.
void checkPlacement(const dsl::Model &model, const Binding &binding,
                    dsl::Diagnostics &diagnostics);

/// Shapes and places of parameters against the arguments in `config`, and the
/// modules that `extra_state` has to name.
void checkParameters(const dsl::Model &model, const Binding &binding,
                     dsl::Diagnostics &diagnostics);

/// The shape that Megatron's arguments give a parameter, in words; "" where
/// nothing is known of it.
std::string shapeByArguments(const dsl::Model &model, const std::string &name);

/// Arguments in `config` against the parameters that the rules give, and
/// arguments that a decoder needs and `config` does not set.
void checkArguments(const dsl::Model &model, dsl::Diagnostics &diagnostics);

/// Arguments in `config` that Megatron cannot compute with: errors.
void checkArgumentKinds(const dsl::Model &model, dsl::Diagnostics &diagnostics);

/// All of them; of an import.
void checkMegatronFacts(const dsl::Model &model, const Binding &binding,
                        dsl::Diagnostics &diagnostics);

/// Megatron's arguments as `config` sets them.
class MegatronArguments {
public:
  explicit MegatronArguments(const dsl::Model &model);
  /// Nothing if it is absent or null.
  const dsl::Value *find(std::string_view name) const;
  /// True and false are 1 and 0; nothing if it is no integer.
  std::optional<int64_t> integer(std::string_view name) const;
  bool isTrue(std::string_view name) const;
  /// Weight matrices of a gated feed-forward's input: 2, else 1.
  int64_t gates() const;

private:
  std::unordered_map<std::string_view, const dsl::Value *> values;
};

} // namespace mbc::compiler
