#include "tests/mutation/Damage.h"

#include <fmt/format.h>

namespace mbc::test {

using antlr4::ParserRuleContext;

Span Damage::span(antlr4::Token *token) const {
  size_t begin = token->getStartIndex(), end = token->getStopIndex() + 1;
  return {current, begin, end, files[current].text.substr(begin, end - begin)};
}

Span Damage::span(ParserRuleContext *tree) const {
  return between(span(tree->getStart()), span(tree->getStop()));
}

Span Damage::between(const Span &first, const Span &last) const {
  return {current, first.begin, last.end,
          files[current].text.substr(first.begin, last.end - first.begin)};
}

void Damage::add(std::string damage, std::vector<Edit> edits) {
  out.push_back({std::move(damage), std::move(edits)});
}

void Damage::replace(std::string damage, const Span &where, std::string text) {
  if (text != where.text)
    add(std::move(damage),
        {{where.file, where.begin, where.end, std::move(text)}});
}

void Damage::swap(const std::string &damage, const Span &a, const Span &b) {
  if (a.text != b.text)
    add(damage,
        {{a.file, a.begin, a.end, b.text}, {b.file, b.begin, b.end, a.text}});
}

void Damage::dropItem(const std::string &damage, const std::vector<Span> &items,
                      size_t index) {
  Span hole = items[index];
  if (index + 1 < items.size())
    hole.end = items[index + 1].begin;
  else if (index > 0)
    hole.begin = items[index - 1].end;
  add(damage, {{hole.file, hole.begin, hole.end, ""}});
}

void Damage::swapPairs(const std::string &damage,
                       const std::vector<Span> &items) {
  for (size_t i = 0; i != items.size(); ++i)
    for (size_t j = i + 1; j != items.size(); ++j)
      swap(damage, items[i], items[j]);
}

void Damage::children(antlr4::tree::ParseTree *tree) {
  for (antlr4::tree::ParseTree *child : tree->children)
    visit(child);
}

void Damage::inLoop(ParserRuleContext *tree, Tree::IdContext *variable,
                    Tree::ExpressionContext *from,
                    Tree::ExpressionContext *to) {
  bounds(from, to);
  loops.push_back({span(variable).text, span(from).text, span(to).text});
  children(tree);
  loops.pop_back();
}

void Damage::visit(antlr4::tree::ParseTree *tree) {
  auto is = [&]<typename Context>(Context *&found) {
    return (found = dynamic_cast<Context *>(tree)) != nullptr;
  };
  Tree::ForContext *loop;
  Tree::ComprehensionContext *comprehension;
  Tree::CallContext *operation;
  Tree::RuleStatementContext *ruleTree;
  Tree::StatementContext *any;
  Tree::ArgumentsContext *argumentList;
  Tree::ListContext *shape;
  Tree::BinaryContext *operatorTree;
  Tree::TernaryContext *ternary;
  Tree::LiteralContext *value;
  Tree::NameContext *nameTree;
  Tree::BranchContext *branch;
  Tree::MatchContext *choice;
  Tree::AttributeContext *attributeTree;
  Tree::ConfigBlockContext *configTree;
  Tree::ModelBlockContext *modelTree;
  Tree::BlockContext *block;
  Tree::ParametersContext *parameters;
  if (is(any))
    statement(any);
  if (is(loop))
    return inLoop(loop, loop->id(), loop->from, loop->to);
  if (is(comprehension))
    return inLoop(comprehension, comprehension->id(), comprehension->from,
                  comprehension->to);
  if (is(operation)) {
    call(operation);
    if (operation->variable)
      return inLoop(operation, operation->variable, operation->from,
                    operation->to);
  } else if (is(ruleTree))
    rule(ruleTree);
  else if (is(argumentList))
    arguments(argumentList);
  else if (is(shape))
    list(shape);
  else if (is(operatorTree))
    binary(operatorTree);
  else if (is(ternary))
    negate(ternary->condition);
  else if (is(value))
    literal(value);
  else if (is(nameTree))
    name(nameTree);
  else if (is(branch))
    negate(branch->expression());
  else if (is(choice))
    match(choice);
  else if (is(attributeTree))
    attribute(attributeTree);
  else if (is(configTree))
    config(configTree);
  else if (is(modelTree))
    model(modelTree);
  else if (is(parameters))
    swapPairs("parameters swapped", spans(parameters->id()));
  if (is(block)) {
    std::vector<RuleSpan> outer = std::move(rules);
    rules.clear();
    children(tree);
    declarationEnds();
    rules = std::move(outer);
    return;
  }
  children(tree);
}

void Damage::file(size_t index) {
  current = index;
  antlr4::ANTLRInputStream input(files[index].text);
  dsl::MappingLexer lexer(&input);
  antlr4::CommonTokenStream tokens(&lexer);
  Tree parser(&tokens);
  Tree::SpecContext *tree = parser.spec();
  lets(tree);
  children(tree);
  declarationEnds();
  rules.clear();
}

void Damage::norms() {
  for (size_t i = 0; i != normSources.size(); ++i)
    for (size_t j = 0; j != normSources.size(); ++j) {
      const Span &a = normSources[i], &b = normSources[j];
      if (i < j)
        swap("norms swapped", a, b);
      if (i != j && a.file == b.file)
        replace("another norm's source", a, b.text);
    }
}

} // namespace mbc::test
