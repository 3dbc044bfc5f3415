#include "tests/mutation/Damage.h"

#include <fmt/format.h>

namespace mbc::test {

namespace {
const char *kindOf(Tree::StatementContext *tree) {
  if (dynamic_cast<Tree::RuleStatementContext *>(tree))
    return "rule dropped";
  if (dynamic_cast<Tree::TiedContext *>(tree))
    return "tied dropped";
  if (dynamic_cast<Tree::IgnoreContext *>(tree))
    return "ignore dropped";
  if (dynamic_cast<Tree::ExtraStateContext *>(tree))
    return "extra_state dropped";
  return "block dropped";
}
} // namespace

void Damage::statement(Tree::StatementContext *tree) {
  Span whole = span(tree);
  bool stands = !dynamic_cast<Tree::MatchCaseContext *>(tree->parent);
  replace(kindOf(tree), whole, stands ? "" : "{ }");
  if (auto *tied = dynamic_cast<Tree::TiedContext *>(tree)) {
    swap("tied names swapped", span(tied->copy), span(tied->owner));
    if (tied->optional)
      replace("? dropped", span(tied->optional), "");
    if (tied->attribute().empty())
      replace("stage", {whole.file, whole.end, whole.end, ""}, " stage=last");
  } else if (auto *ignore = dynamic_cast<Tree::IgnoreContext *>(tree)) {
    for (Tree::PatternContext *pattern : ignore->pattern()) {
      if (pattern->optional)
        replace("? dropped", span(pattern->optional), "");
      Span path = span(pattern->name());
      size_t dot = path.text.find('.');
      if (dot != std::string::npos)
        replace("ignore broadened", path, path.text.substr(0, dot) + ".**");
    }
  } else if (auto *extra = dynamic_cast<Tree::ExtraStateContext *>(tree)) {
    std::vector<Span> modules = spans(extra->name());
    for (size_t i = 0; modules.size() > 1 && i != modules.size(); ++i)
      dropItem("extra_state dropped", modules, i);
  } else if (auto *scope = dynamic_cast<Tree::ScopeContext *>(tree)) {
    // A parameter below a scope that does not move lands one level too high.
    for (Tree::ScopeNameContext *side : {scope->left, scope->right})
      if (!side->stay)
        replace("scope dropped", span(side), ".");
  }
}

void Damage::rule(Tree::RuleStatementContext *tree) {
  Span whole = span(tree), left = span(tree->left), right = span(tree->right);
  replace("rule duplicated", whole, whole.text + "\n" + whole.text);
  if (right.text.find("norm") != std::string::npos && !tree->right->call())
    normSources.push_back(right);
  for (Tree::OperandContext *side : {tree->left, tree->right})
    if (side->optional)
      replace("? dropped", span(side->optional), "");
  rules.push_back({left, right});
  bool hasShard = false, hasStage = false;
  for (Tree::AttributeContext *attribute : tree->attribute()) {
    std::string key = span(attribute->key).text;
    hasShard |= key == "shard" || key == "dim";
    hasStage |= key == "stage";
  }
  Span behind{whole.file, whole.end, whole.end, ""};
  if (!hasShard)
    for (const char *kind : {"column", "row"})
      replace("shard", behind, fmt::format(" shard={}", kind));
  if (!hasStage)
    for (const char *stage : {"first", "last"})
      replace("stage", behind, fmt::format(" stage={}", stage));
}

void Damage::attribute(Tree::AttributeContext *tree) {
  std::string key = span(tree->key).text;
  Tree::AttributeValueContext *value = tree->value;
  replace(key == "dtype" ? "dtype pin" : key, span(tree), "");
  if (value->condition)
    negate(value->condition);
  for (Tree::AttributeWordContext *word : value->attributeWord()) {
    if (key == "shard")
      shard(word);
    if (key == "stage")
      for (const char *other : {"first", "last", "first_and_last"})
        replace("stage", span(word), other);
    if (key == "dtype")
      for (const char *other : {"f32", "bf16", "f16"})
        replace("dtype pin", span(word), other);
    if (key == "hf_dtype")
      for (const char *other : {"config", "f32", "bf16", "f16"})
        replace("hf_dtype", span(word), other);
  }
}

void Damage::shard(Tree::AttributeWordContext *word) {
  static constexpr const char *kinds[] = {"column",     "row",   "gated",
                                          "replicated", "vocab", "expert_rows"};
  Span whole = span(word), head = whole;
  if (word->id())
    head = span(word->id());
  if (head.text == "expert") {
    Span inner = span(word->arguments());
    replace("shard", whole, inner.text);
    for (const char *kind : kinds)
      if (std::string_view(kind) != "vocab" &&
          std::string_view(kind) != "expert_rows")
        replace("shard", inner, kind);
    return;
  }
  for (const char *kind : kinds)
    if (head.text != kind)
      replace("shard", whole, kind);
  if (word->arguments())
    replace(head.text == "section" ? "section names dropped"
                                   : "heads of a shard dropped",
            whole, head.text);
}

void Damage::match(Tree::MatchContext *tree) {
  std::vector<Span> words;
  for (Tree::MatchCaseContext *entry : tree->matchCase())
    words.push_back(span(entry->STRING()->getSymbol()));
  swapPairs("match words swapped", words);
}

/// Mistakes that need two rules of one block.
void Damage::declarationEnds() {
  for (size_t i = 0; i != rules.size(); ++i)
    for (size_t j = i + 1; j != rules.size(); ++j) {
      swap("sources of two rules swapped", rules[i].right, rules[j].right);
      swap("targets of two rules swapped", rules[i].left, rules[j].left);
      if (j == i + 1) {
        replace("another rule's source", rules[i].right, rules[j].right.text);
        replace("another rule's source", rules[j].right, rules[i].right.text);
      }
    }
}

} // namespace mbc::test
