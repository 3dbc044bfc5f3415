#include "compiler/Binding/Coverage.h"

#include "compiler/Binding/QuantizedTensors.h"

#include <fmt/format.h>

namespace mbc::compiler {

bool matches(std::string_view pattern, std::string_view name) {
  size_t dot = pattern.find('.');
  std::string_view head = pattern.substr(0, dot);
  bool isLast = dot == std::string_view::npos;
  if (head == "**") {
    if (isLast)
      return true;
    std::string_view rest = pattern.substr(dot + 1);
    for (size_t at = 0;; ++at) {
      if (matches(rest, name.substr(at)))
        return true;
      at = name.find('.', at);
      if (at == std::string_view::npos)
        return false;
    }
  }
  size_t end = name.find('.');
  if (head != "*" && head != name.substr(0, end))
    return false;
  if (isLast || end == std::string_view::npos)
    return isLast && end == std::string_view::npos;
  return matches(pattern.substr(dot + 1), name.substr(end + 1));
}

void Coverage::ignore(const std::vector<dsl::IgnorePattern> &patterns,
                      dsl::Diagnostics &diagnostics) {
  std::vector<bool> ignored(used.size());
  for (const dsl::IgnorePattern &pattern : patterns) {
    std::string_view fixed = pattern.pattern;
    fixed = fixed.substr(0, fixed.find('*'));
    size_t count = 0;
    for (uint32_t i = 0; i != used.size(); ++i) {
      std::string_view name = checkpoint.tensors[i].name;
      if (!name.starts_with(fixed) || !matches(pattern.pattern, name))
        continue;
      ++count;
      ignored[i] = true;
      if (used[i]) {
        diagnostics.error(
            pattern.where,
            fmt::format("`ignore {}` also matches {}, which a rule "
                        "reads; narrow the pattern",
                        pattern.pattern, name));
        break;
      }
    }
    if (count == 0 && !pattern.optional)
      diagnostics.error(
          pattern.where,
          fmt::format("`ignore {}` matches no tensor; remove it, or "
                      "mark it `?` if that is expected",
                      pattern.pattern));
  }
  for (uint32_t i = 0; i != used.size(); ++i)
    if (ignored[i] && !used[i]) {
      used[i] = true;
      left.emplace_back(checkpoint.tensors[i].name);
    }
}

size_t Coverage::activationScales() {
  size_t count = 0;
  for (uint32_t i = 0; i != used.size(); ++i) {
    std::string_view name = checkpoint.tensors[i].name;
    if (used[i] || valuesOfActivation(name).empty() ||
        !isCompanion(checkpoint, name))
      continue;
    used[i] = true;
    ++count;
  }
  return count;
}

void Coverage::tieHfCopies(const BindInput &input, Binding &binding,
                           dsl::Diagnostics &diagnostics) {
  bool drop = input.options.copies == "drop";
  auto tie = [&](const dsl::TiedCopy &copy, const std::string &copyName,
                 const std::string &ownerName) {
    uint32_t at = checkpoint.find(copyName), owner = checkpoint.find(ownerName);
    if (at == Checkpoint::none)
      return false;
    if (used[at])
      diagnostics.error(copy.where,
                        fmt::format("{} is declared tied, but a rule reads it "
                                    "too; a tensor belongs to one of them",
                                    copyName));
    used[at] = true;
    if (drop)
      return true;
    if (owner == Checkpoint::none) {
      diagnostics.error(copy.where,
                        fmt::format("{} is tied to {}, which is not in {}",
                                    copyName, ownerName, checkpoint.root));
      return true;
    }
    const StoredTensor &a = checkpoint.tensors[at],
                       &b = checkpoint.tensors[owner];
    if (*a.shape != *b.shape || a.dtype != b.dtype)
      diagnostics.error(
          copy.where,
          fmt::format("{} is {} {}, but {} to which it is tied is {} {}; "
                      "--copies drop leaves it out",
                      copyName, safetensorsName(a.dtype), toString(*a.shape),
                      ownerName, safetensorsName(b.dtype), toString(*b.shape)));
    else if (a.order || b.order)
      diagnostics.error(
          copy.where,
          fmt::format("{} or {}, to which it is tied, is a transposed view: "
                      "save it contiguous, or leave the copy out by --copies "
                      "drop",
                      copyName, ownerName));
    else
      binding.comparisons.push_back(wholeComparison(checkpoint, at, owner));
    return true;
  };
  for (const dsl::TiedCopy &copy : input.model.ties) {
    if (copy.side != dsl::Side::Hf)
      continue;
    if (tie(copy, copy.copy, copy.owner)) {
      (drop ? binding.dropped : binding.copies).push_back(copy.copy);
      for (auto names : {scaleNames, tensorScaleNames}) {
        std::vector<std::string> ofCopy = names(copy.copy),
                                 ofOwner = names(copy.owner);
        for (size_t i = 0; i != std::min(ofCopy.size(), ofOwner.size()); ++i)
          tie(copy, ofCopy[i], ofOwner[i]);
      }
    } else if (!copy.optional) {
      diagnostics.error(copy.where, fmt::format("{} is not in {}", copy.copy,
                                                checkpoint.root));
    }
  }
  for (const std::string &name : binding.dropped)
    binding.notes.push_back(
        fmt::format("{} is left out (--copies drop)", name));
}

std::vector<std::string> Coverage::leftOver() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i != used.size(); ++i)
    if (!used[i] &&
        (names.empty() || names.back() != checkpoint.tensors[i].name))
      names.emplace_back(checkpoint.tensors[i].name);
  return names;
}

} // namespace mbc::compiler
