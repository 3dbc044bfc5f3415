#include "dsl/Support.h"

#include "runtime/TowerNames.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>

namespace mbc::dsl {
namespace {

/// Looks at every statement that a spec can reach. A block of a used file that
/// nothing calls says nothing about the spec.
class PartFinder {
public:
  explicit PartFinder(const Spec &spec) : spec(spec) {}

  void walk(const Body &body) {
    for (const Statement &statement : body)
      std::visit([this](const auto &node) { visit(node); }, statement.node);
  }

  bool mtp = false, vision = false, audio = false;
  std::set<std::string> forms;

private:
  void visit(const Rule &rule) { side(*rule.megatron); }
  void visit(const Scope &scope) {
    megatronName(scope.megatron);
    walk(scope.body);
  }
  void visit(const For &loop) { walk(loop.body); }
  void visit(const If &choice) {
    for (const Branch &branch : choice.branches)
      walk(branch.body);
  }
  void visit(const Match &match) {
    for (const MatchCase &entry : match.cases)
      walk(entry.body);
  }
  void visit(const Either &either) {
    for (const Form &form : either.forms) {
      forms.insert(form.label);
      walk(form.body);
    }
  }
  void visit(const Call &call) {
    auto block = spec.blocks.find(call.symbol);
    if (block != spec.blocks.end() && entered.insert(call.symbol).second)
      walk(block->second.body);
  }
  void visit(const TiedStatement &) {}
  void visit(const IgnoreStatement &) {}
  void visit(const ExtraStateStatement &) {}

  void side(const Expr &expr) {
    if (expr.kind == Expr::Kind::Name)
      megatronName(*expr.name);
    if (expr.kind == Expr::Kind::Call)
      for (const Argument &argument : expr.call->arguments)
        side(*argument.value);
  }

  void megatronName(const Name &name) {
    for (const NamePiece &piece : name.pieces)
      for (auto part : std::views::split(std::string_view(piece.text), '.')) {
        const std::string_view word(part);
        mtp |= word == "mtp";
        vision |= towerOf(word) == Tower::Vision;
        audio |= towerOf(word) == Tower::Audio;
      }
  }

  const Spec &spec;
  std::set<Symbol> entered;
};

/// What follows the '#' of a line that holds nothing but a comment.
std::optional<std::string_view> commentOf(std::string_view line) {
  const size_t at = line.find_first_not_of(" \t");
  if (at == std::string_view::npos || line[at] != '#')
    return std::nullopt;
  line.remove_prefix(at + 1);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line;
}

/// Each from its mark to the end of its comment or to the next mark.
void addUncertain(std::string_view text, std::vector<std::string> &found) {
  constexpr std::string_view mark = "Uncertain: ";
  bool inside = false;
  for (auto part : std::views::split(text, '\n')) {
    const std::optional<std::string_view> comment =
        commentOf(std::string_view(part));
    const bool begins = comment && comment->starts_with(mark);
    inside = begins || (inside && comment && !comment->empty());
    if (begins)
      found.emplace_back(comment->substr(mark.size()));
    else if (inside)
      found.back().append(" ").append(*comment);
  }
}

} // namespace

SpecSupport support(const Spec &spec) {
  PartFinder finder(spec);
  finder.walk(spec.statements);
  SpecSupport support;
  if (spec.model && spec.model->experts)
    support.parts.emplace_back("experts");
  if (finder.mtp)
    support.parts.emplace_back("MTP");
  if (finder.vision)
    support.parts.emplace_back("vision");
  if (finder.audio)
    support.parts.emplace_back("audio");
  support.forms.assign(finder.forms.begin(), finder.forms.end());
  for (const auto &file : spec.files)
    addUncertain(file->text, support.uncertain);
  return support;
}

} // namespace mbc::dsl
