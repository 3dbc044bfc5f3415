#include "compiler/DraftSpec.h"

#include "compiler/Binding/FindSpec.h"
#include "compiler/Binding/NameGroups.h"
#include "compiler/Compilation.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>
#include <tuple>

namespace mbc::compiler {
namespace {

/// How well a spec fits a checkpoint that it was not made for.
struct Candidate {
  SpecEntry spec;
  std::unique_ptr<Compilation> compilation;

  size_t misplaced() const {
    const Binding &binding = compilation->bound();
    return binding.missing.size() + binding.leftOver.size();
  }
  size_t errors() const {
    return static_cast<size_t>(std::ranges::count_if(
        compilation->diagnostics.all(), [](const dsl::Diagnostic &entry) {
          return entry.severity == dsl::Severity::Error;
        }));
  }
  size_t unreadFields() const {
    return compilation->evaluated().unreadConfigFields.size();
  }
  /// Megatron's, neither null nor false.
  size_t argumentsSet() const {
    return static_cast<size_t>(std::ranges::count_if(
        compilation->evaluated().config, [](const dsl::ConfigField &field) {
          return field.value != dsl::Value(false) &&
                 !std::holds_alternative<std::monostate>(field.value);
        }));
  }
};

/// Where names tell nothing, the family whose fields config.json has; then the
/// plainest: interleaved rotary positions, say, are no one's default.
bool fitsBetter(const Candidate &a, const Candidate &b) {
  auto key = [](const Candidate &candidate) {
    return std::tuple(candidate.misplaced(), candidate.errors(),
                      candidate.unreadFields(), candidate.argumentsSet());
  };
  return key(a) < key(b);
}

/// The best of all specs that can be evaluated over this config.json at all.
std::optional<Candidate> nearest(const Options &options,
                                 dsl::Diagnostics &diagnostics) {
  std::optional<Candidate> best;
  for (SpecEntry &entry :
       listSpecs(specDirectory(options.specPath), diagnostics)) {
    Options with = options;
    with.spec = entry.path;
    Candidate candidate{std::move(entry), std::make_unique<Compilation>(with)};
    candidate.compilation->prepare();
    if (!candidate.compilation->bound().classes.empty() &&
        (!best || fitsBetter(candidate, *best)))
      best = std::move(candidate);
  }
  return best;
}

std::string quoted(const std::vector<std::string> &names) {
  return fmt::format("\"{}\"", fmt::join(names, "\" \""));
}

/// A name of the language: letters, digits and underscores.
std::string modelName(const ConfigFacts &facts) {
  std::string name = facts.modelType.empty() ? "model" : facts.modelType;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  if (std::isdigit(static_cast<unsigned char>(name.front())))
    name.insert(name.begin(), '_');
  return name;
}

/// The spec's text with the `model` block's name, classes and types replaced.
std::string renamed(const std::string &text, const ConfigFacts &facts) {
  std::string result, line;
  std::istringstream lines(text);
  bool inModel = false;
  auto word = [&] {
    std::string first;
    std::istringstream(line) >> first;
    return first;
  };
  while (std::getline(lines, line)) {
    if (word() == "model" && !inModel) {
      inModel = true;
      line = fmt::format("model {} {{", modelName(facts));
    } else if (inModel && word() == "hf") {
      line = fmt::format("  hf       {}", quoted(facts.architectures));
    } else if (inModel && word() == "type") {
      line = fmt::format("  type     {}", quoted({facts.modelType}));
    } else if (line.starts_with("}")) {
      inModel = false;
    }
    result += line + '\n';
  }
  return result;
}

void appendNames(std::string &text, const char *heading,
                 const std::vector<std::string> &names,
                 const Checkpoint &checkpoint) {
  if (names.empty())
    return;
  text += fmt::format("\n# {}\n", heading);
  for (const NameGroup &group : groupNames(names)) {
    text += fmt::format("#   {}", group.text);
    if (uint32_t at = checkpoint.find(names[group.first]);
        at != Checkpoint::none) {
      const StoredTensor &tensor = checkpoint.tensors[at];
      text += fmt::format("  {} {}", safetensorsName(tensor.dtype),
                          toString(*tensor.shape));
    }
    text += '\n';
  }
}

} // namespace

Result<std::string> draftSpec(const Options &options,
                              dsl::Diagnostics &diagnostics) {
  Compilation unknown(options);
  if (!unknown.openSource()) {
    for (const dsl::Diagnostic &entry : unknown.diagnostics.all())
      diagnostics.error(entry.where, entry.text, entry.notes);
    return std::string();
  }
  if (unknown.source().format != Format::Safetensors)
    return fail("a spec is drafted from a Hugging Face checkpoint; {} is none",
                options.source);
  std::optional<Candidate> best = nearest(options, diagnostics);
  if (!best)
    return fail("no shipped spec can be evaluated over {}/config.json; begin "
                "with the tutorial in specs/README.md",
                options.source);
  const Compilation &compilation = *best->compilation;
  const Binding &binding = compilation.bound();
  std::string text = renamed(compilation.specText(), unknown.configFacts());
  text += fmt::format(
      "\n# Drafted after {}: {} of {} tensors are read by no rule, {} that "
      "rules read are not there.\n# `mbc check {} --spec THIS-FILE` shows what "
      "else does not fit.\n",
      best->spec.header.name, binding.leftOver.size(),
      compilation.source().tensors.size(), binding.missing.size(),
      options.source);
  appendNames(text, "Read by no rule:", binding.leftOver, compilation.source());
  appendNames(text, "Looked for, and not there:", binding.missing,
              compilation.source());
  return text;
}

} // namespace mbc::compiler
