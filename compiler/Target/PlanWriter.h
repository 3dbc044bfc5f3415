#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Target/Target.h"
#include "runtime/Plan_generated.h"

#include <string>
#include <vector>

namespace mbc::compiler {

/// A small file that the plan brings along. `object`: its key in `.metadata`
/// if it is a byte object of a torch_dist.
struct PlanSidecar {
  std::string path, bytes, object;
};

/// Everything that goes into a plan beside the classes themselves.
struct PlanContent {
  Direction direction = Direction::Import;
  Format format = Format::TorchDist;
  std::string family, summary;
  int64_t iteration = 0; ///< of a Megatron target; 0: a release
  std::vector<PlanSidecar> sidecars;
  std::vector<std::pair<std::string, std::string>> copies; ///< source, target
  /// Files beside the tensors' that the plan was made from; the run refuses
  /// others in their place.
  std::vector<std::string> inputs;
  std::string specText, configJson, optionsJson;
  std::vector<std::string> notes;
};

/// The plan, a FlatBuffer and its seal. Fails if the tables do not fit together
/// or the plan would pass the format's limit of 2 GiB.
Result<flatbuffers::DetachedBuffer> writePlan(const PlanContent &content,
                                              const Checkpoint &checkpoint,
                                              const Binding &binding,
                                              const TensorProgram &program,
                                              const Target &target);

} // namespace mbc::compiler
