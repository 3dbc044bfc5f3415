#pragma once

#include "compiler/Binding/ConfigFacts.h"
#include "dsl/Parse.h"
#include "dsl/Support.h"

#include <string>
#include <vector>

namespace mbc::compiler {

/// A shipped or given spec file and what it says about itself.
struct SpecEntry {
  std::string path;
  dsl::SpecHeader header;
  dsl::SpecSupport support;
};

/// The folder of the shipped specs: share/mbc/specs beside this library's
/// folder, unless --spec-path names another.
std::string specDirectory(const std::string &specPath);

/// The specs of a folder that have one of the words in quotes, by file name; no
/// words: all. Files that do not parse are reported.
std::vector<SpecEntry> listSpecs(const std::string &directory,
                                 dsl::Diagnostics &diagnostics,
                                 const std::vector<std::string> &words = {});

/// The spec for a config.json: by `architectures`, else by `model_type`. An
/// unknown or ambiguous model is an error that shows what was found, the
/// nearest known names and how to name a spec by hand.
std::string findSpec(const ConfigFacts &config, const std::string &directory,
                     std::vector<std::string> &notes,
                     dsl::Diagnostics &diagnostics);

/// All specs of a folder for a config.json: a family may have several Megatron
/// layouts. The one that is called after the model_type comes first.
std::vector<std::string> findSpecs(const ConfigFacts &config,
                                   const std::string &directory);

} // namespace mbc::compiler
