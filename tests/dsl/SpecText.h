#pragma once

#include "dsl/Model.h"
#include "dsl/Parse.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace mbc::dsl {

/// A spec's first lines, up to its rules: enough for `evaluate`. The rules
/// then start at line 3.
inline std::string withModel(const std::string &rest) {
  return "mbspec 1\n"
         "model tiny { megatron \"GPTModel\" layers 1 vocab 8 multiple 1 }\n" +
         rest;
}

inline std::string messages(const Diagnostics &diagnostics) {
  std::string text;
  for (const Diagnostic &entry : diagnostics.all())
    text += toString(entry);
  return text;
}

/// All findings of parsing `text`, as a person sees them.
inline std::string parseMessages(const std::string &text) {
  Diagnostics diagnostics;
  parseText(text, "t.mbspec", {}, diagnostics);
  return messages(diagnostics);
}

struct Evaluated {
  Model model;
  std::string text; ///< the findings
};

/// Evaluates a spec against names on one side.
inline Evaluated evaluateText(const std::string &text,
                              const std::string &config = "{}",
                              const std::set<std::string> &names = {},
                              Side known = Side::Hf,
                              std::vector<std::string> preferred = {},
                              const std::set<std::string> &recorded = {}) {
  Diagnostics diagnostics;
  ParseResult spec = parseText(text, "t.mbspec", {}, diagnostics);
  Evaluated result;
  if (spec) {
    NameOracle oracle;
    oracle.known = known;
    oracle.preferredForms = std::move(preferred);
    oracle.recorded = [&](std::string_view name) {
      return recorded.contains(std::string(name));
    };
    oracle.exists = [&](std::string_view name) {
      return names.contains(std::string(name));
    };
    oracle.withPrefix = [&](std::string_view prefix) {
      std::vector<std::string> found;
      for (const std::string &name : names)
        if (name.starts_with(prefix))
          found.push_back(name);
      return found;
    };
    result.model = evaluate(*spec, config, oracle, diagnostics);
  }
  result.text = messages(diagnostics);
  return result;
}

/// "m1 m2 <- h1 h2", one line a rule.
inline std::string rulesOf(const Model &model) {
  std::string text;
  for (const RuleInstance &instance : model.instances) {
    for (const std::string &name : instance.megatron)
      text += name + " ";
    text += "<-";
    for (const std::string &name : instance.hf)
      text += " " + name;
    text += "\n";
  }
  return text;
}

} // namespace mbc::dsl
