#include "compiler/LanguageServer/Completion.h"

#include "dsl/Check.h"
#include "dsl/ConfigJson.h"
#include "dsl/Expression.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

namespace mbc::compiler {
namespace {

using Kind = dsl::SymbolUse::Kind;

/// Longer lists are cut and asked for again with more of the word.
constexpr size_t maxItems = 500;

/// CompletionItemKind of the protocol.
enum ItemKind { Function = 3, Field = 5, Variable = 6, Module = 9, Value = 12 };

class Items {
public:
  explicit Items(std::string_view prefix) : prefix(prefix) {}

  void add(std::string_view label, ItemKind kind) {
    if (!label.starts_with(prefix) || !seen.emplace(label).second)
      return;
    if (list.size() == maxItems)
      cut = true;
    else
      list.push_back({{"label", label}, {"kind", static_cast<int>(kind)}});
  }

  Json result() const { return {{"isIncomplete", cut}, {"items", list}}; }

private:
  std::string_view prefix;
  std::set<std::string, std::less<>> seen;
  bool cut = false;
  Json list = Json::array();
};

/// The dotted word that ends a text.
std::string_view lastWord(std::string_view text) {
  size_t start = text.size();
  while (start != 0 &&
         (std::isalnum(static_cast<unsigned char>(text[start - 1])) ||
          std::string_view("._^").contains(text[start - 1])))
    --start;
  return text.substr(start);
}

/// The members of the object that a word such as `hf.text_config.hid` is in.
void addFields(std::string_view word, const Subject &subject, Json &result) {
  Result<dsl::ConfigNode> config = dsl::parseConfig(subject.config);
  if (!config)
    return;
  const dsl::ConfigNode *node = &*config;
  word.remove_prefix(word.find('.') + 1);
  for (size_t dot; node && (dot = word.find('.')) != std::string_view::npos;
       word.remove_prefix(dot + 1))
    node = node->find(word.substr(0, dot));
  if (!node)
    return;
  Items items(word);
  for (const auto &[name, member] : node->members)
    items.add(name, Field);
  result = items.result();
}

/// Whether a place is in the declaration of a local name: from its line to
/// that of the next declaration at the top.
bool inSight(const Document &document, const dsl::SourceRange &local,
             uint32_t line) {
  uint32_t end = UINT32_MAX;
  for (const dsl::SymbolUse &use : document.symbols()) {
    bool top = use.kind == Kind::Let || use.kind == Kind::Def ||
               use.kind == Kind::Block;
    if (top && document.isHere(use.where) && use.where.line > local.line &&
        use.where.line == use.declaration.line &&
        use.where.file == use.declaration.file)
      end = std::min(end, use.where.line);
  }
  return document.isHere(local) && local.line <= line && line < end;
}

void addSymbols(const Document &document, uint32_t line, Items &items) {
  const dsl::Spec *spec = document.spec();
  if (!spec)
    return;
  for (const dsl::SymbolUse &use : document.symbols()) {
    bool local = use.kind == Kind::Parameter || use.kind == Kind::Variable;
    if (use.kind == Kind::File ||
        (local && !inSight(document, use.declaration, line)))
      continue;
    items.add(spec->symbols[use.symbol], use.kind == Kind::Block ? Module
                                         : use.kind == Kind::Def ? Function
                                                                 : Variable);
  }
}

/// Names of tensors, and what of them is behind a scope's prefix: the whole
/// name for no word, else each end that starts with the word.
void addTensors(std::string_view word, const Checkpoint &checkpoint,
                Items &items) {
  for (const StoredTensor &tensor : checkpoint.tensors) {
    items.add(tensor.name, Value);
    if (word.empty())
      continue;
    for (size_t dot = tensor.name.find('.'); dot != std::string::npos;
         dot = tensor.name.find('.', dot + 1))
      items.add(std::string_view(tensor.name).substr(dot + 1), Value);
  }
}

} // namespace

Json completion(const Document &document, Place place, const Subject *subject) {
  std::string_view text = before(document.text(), place);
  std::string_view word = lastWord(text);
  Json result = Items("").result();
  if (word.starts_with("hf.")) {
    if (subject)
      addFields(word, *subject, result);
    return result;
  }
  Items items(word);
  items.add("hf", Variable);
  addSymbols(document, place.line, items);
  for (const auto *names : {&dsl::operationNames(), &dsl::builtinNames()})
    for (const std::string &name : *names)
      items.add(name, Function);
  if (subject && subject->checkpoint)
    addTensors(word, *subject->checkpoint, items);
  return items.result();
}

} // namespace mbc::compiler
