#include "tests/mutation/Damage.h"

#include <array>
#include <cctype>

#include <fmt/format.h>

namespace mbc::test {

void Damage::offByOne(const std::string &damage, const Span &where) {
  for (const char *step : {"+ 1", "- 1"})
    replace(damage, where, fmt::format("({}) {}", where.text, step));
}

void Damage::bounds(Tree::ExpressionContext *from,
                    Tree::ExpressionContext *to) {
  offByOne("loop bound", span(from));
  offByOne("loop bound", span(to));
}

void Damage::negate(Tree::ExpressionContext *condition) {
  Span whole = span(condition);
  replace("condition negated", whole, fmt::format("!({})", whole.text));
}

void Damage::call(Tree::CallContext *tree) {
  std::string callee = span(tree->id().front()).text;
  if (!tree->arguments())
    return;
  std::vector<Tree::ArgumentContext *> given = tree->arguments()->argument();
  Span first = span(given.front());
  bool wraps = callee == "reshape" || callee == "transpose" ||
               callee == "add" || callee == "scale";
  if (wraps)
    replace(fmt::format("{} dropped", callee), span(tree), first.text);
  bool hasConstant = callee == "add" || callee == "scale";
  if (callee == "init" || (hasConstant && given.size() > 1)) {
    Span constant = callee == "init" ? first : span(given[1]);
    replace("sign of a constant", constant,
            fmt::format("-({})", constant.text));
  }
  bool joins = callee == "concat" || callee == "stack";
  bool hasDim = false;
  for (Tree::ArgumentContext *argument : given)
    hasDim |= argument->key != nullptr;
  if (joins && !hasDim) {
    Span last = span(given.back());
    replace("dim of a concat", {last.file, last.end, last.end, ""}, ", dim=1");
  }
}

void Damage::arguments(Tree::ArgumentsContext *tree) {
  std::vector<Tree::ArgumentContext *> given = tree->argument();
  std::vector<Span> all = spans(given), plain, extents, values;
  for (size_t i = 0; i != given.size(); ++i) {
    Tree::ArgumentContext *argument = given[i];
    dropItem(argument->key ? "dim of a concat" : "argument dropped", all, i);
    if (argument->optional)
      replace("? dropped", span(argument->optional), "");
    if (argument->key) {
      offByOne("dim of a concat", span(argument->value));
      continue;
    }
    plain.push_back(all[i]);
    values.push_back(span(argument->value));
    if (argument->extent)
      extents.push_back(span(argument->extent));
  }
  swapPairs("arguments swapped", plain);
  // The names change places, the extents stay.
  swapPairs("arguments swapped", values);
  swapPairs("extents swapped", extents);
  for (const Span &extent : extents)
    offByOne("extent", extent);
}

void Damage::list(Tree::ListContext *tree) {
  std::vector<Span> items;
  for (Tree::ListItemContext *item : tree->listItem())
    if (item->expression())
      items.push_back(span(item));
  swapPairs("axes of a shape swapped", items);
  for (const Span &item : items)
    offByOne("extent", item);
}

void Damage::binary(Tree::BinaryContext *tree) {
  static constexpr std::array<std::pair<const char *, const char *>, 12> slips{{
      {"+", "-"},
      {"-", "+"},
      {"*", "/"},
      {"/", "*"},
      {"%", "/"},
      {"<", "<="},
      {"<=", "<"},
      {">", ">="},
      {">=", ">"},
      {"==", "!="},
      {"&&", "||"},
      {"||", "&&"},
  }};
  Span sign = span(tree->op);
  if (sign.text == "??") {
    replace("default dropped", span(tree), span(tree->left).text);
    replace("field of a default dropped", span(tree), span(tree->right).text);
  }
  for (auto [is, becomes] : slips)
    if (sign.text == is)
      replace("operator", sign, becomes);
}

void Damage::literal(Tree::LiteralContext *tree) {
  Span whole = span(tree);
  if (whole.text == "true" || whole.text == "false")
    replace("truth value", whole, whole.text == "true" ? "false" : "true");
  if (tree->INT())
    offByOne("number", whole);
  if (tree->FLOAT())
    replace("number", whole, whole.text == "0.0" ? "1.0" : "0.0");
}

namespace {
/// `name` with each use of a variable replaced.
std::string withVariable(std::string_view text, const std::string &variable,
                         const std::string &value) {
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string result;
  for (size_t at = 0; at != text.size();) {
    size_t end = at;
    while (end != text.size() && isWord(text[end]))
      ++end;
    if (end == at)
      ++end;
    std::string_view word = text.substr(at, end - at);
    result += word == variable ? value : std::string(word);
    at = end;
  }
  return result;
}
} // namespace

void Damage::name(Tree::NameContext *tree) {
  Span whole = span(tree);
  if (!whole.text.empty() && whole.text.front() == '^')
    replace("^ dropped", whole, whole.text.substr(1));
  for (size_t open = whole.text.find('{'); open != std::string::npos;
       open = whole.text.find('{', open + 1)) {
    size_t close = whole.text.find('}', open);
    size_t begin = whole.begin + open + 1, end = whole.begin + close;
    std::string text = whole.text.substr(open + 1, close - open - 1);
    Span hole{whole.file, begin, end, text};
    for (const Loop &loop : loops) {
      std::string reversed =
          fmt::format("(({})+({})-1-{})", loop.from, loop.to, loop.variable);
      std::string mirrored = withVariable(text, loop.variable, reversed);
      if (mirrored == text || mirrored.find_first_of("{}\n") != mirrored.npos)
        continue;
      replace("index reversed", hole, mirrored);
      replace("index", hole, fmt::format("({})+1", text));
      replace("index", hole, fmt::format("({})-1", text));
      replace("index", hole, withVariable(text, loop.variable, loop.from));
    }
  }
}

} // namespace mbc::test
