#pragma once

#include "dsl/Ast.h"
#include "dsl/ConfigJson.h"
#include "dsl/Model.h"

#include <string>
#include <vector>

namespace mbc::dsl {

/// An argument of Megatron's, as a checkpoint has it.
struct KnownArgument {
  std::string name;
  /// What it may be in the spec; several where Megatron takes one for the
  /// other, as a list of layers for every n-th. Empty: what the spec gives by
  /// itself is right, and is written.
  std::vector<Value> spellings;
};

/// Whether two values of the language are the same; 1 and 1.0 are.
bool sameValue(const Value &one, const Value &other);

/// A config.json for which the spec's `config` gives the arguments: fields are
/// added to `known`, whose own stay. It is a guess in the sense that not all
/// arguments need have been met: evaluate the spec with it, and compare.
/// `vocabSize` says what the model's `vocab` is.
ConfigNode invertConfig(const Spec &spec, const NameOracle &oracle,
                        ConfigNode known,
                        const std::vector<KnownArgument> &arguments,
                        const Value &vocabSize);

} // namespace mbc::dsl
