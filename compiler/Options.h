#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mbc::compiler {

/// The options of convert, compile and check; an empty string or 0 means that
/// the option was not given, or asks for nothing (--quant none).
struct Options {
  std::string source, spec, specPath, config;
  std::string format, experts, hfExperts, dtype, quant, copies, hfConfig,
      pipelineLayout;
  std::vector<std::string> forms; ///< of `either` statements, by name
  int64_t tp = 1, pp = 1, vpp = 1, ep = 1;
  int64_t etp = 0; ///< 0: as tp, Megatron's default
  int64_t firstStageLayers = 0, lastStageLayers = 0;
  int64_t vocabDivisor = 0;
  int64_t maxShardSize = 0; ///< bytes
  std::string to;           ///< "megatron": a Megatron source is resharded
  int64_t iteration = 0;    ///< 0: a `release`
};

} // namespace mbc::compiler
