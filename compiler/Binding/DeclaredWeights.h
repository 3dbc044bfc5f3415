#pragma once

#include "compiler/Binding/ConfigFacts.h"
#include "compiler/RuleClass.h"
#include "runtime/Checkpoint.h"

#include <string>

namespace mbc::compiler {

/// Codes and scales, and what their headers make of them.
struct QuantizedHeaders {
  const StoredTensor &codes, &scales;
  const OperandType &type;
};

/// Where config.json says something else of a quantised weight than the headers
/// of its tensors; empty if they agree. Either may be wrong: values would be
/// read that nobody wrote.
std::string contradiction(const Checkpoint &checkpoint,
                          const QuantizedHeaders &headers,
                          const Quantization &declared);

} // namespace mbc::compiler
