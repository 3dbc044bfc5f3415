#include "dsl/AstContext.h"

#include <charconv>
#include <map>

namespace mbc::dsl {

SourceRange ExpressionBuilder::range(antlr4::Token *start,
                                     antlr4::Token *stop) const {
  SourceRange result{file, 0, 0, 1};
  bool firstLineOfText = start->getLine() == 1;
  result.line = static_cast<uint32_t>(start->getLine()) + firstLine - 1;
  result.column = static_cast<uint32_t>(start->getCharPositionInLine()) + 1 +
                  (firstLineOfText ? firstColumn : 0);
  antlr4::Token *last =
      stop && stop->getLine() == start->getLine() ? stop : start;
  result.length = static_cast<uint32_t>(last->getCharPositionInLine() -
                                        start->getCharPositionInLine() +
                                        last->getText().size());
  return result;
}

Symbol ExpressionBuilder::intern(const std::string &text) {
  auto [entry, added] =
      spec.symbolOf.try_emplace(text, static_cast<Symbol>(spec.symbols.size()));
  if (added)
    spec.symbols.push_back(text);
  return entry->second;
}

Symbol ExpressionBuilder::plain(MappingParser::IdContext *tree) {
  std::string text = tree->getText();
  if (text.find_first_of(".{^") != std::string::npos)
    diagnostics.error(range(tree), "'" + text +
                                       "' has to be a plain word here, "
                                       "without dots and holes");
  return intern(text);
}

Name ExpressionBuilder::name(MappingParser::NameContext *tree) {
  Name result;
  result.where = range(tree);
  result.spelling = tree->getText();
  std::string_view text = result.spelling;
  uint32_t column = result.where.column - 1;
  if (text.starts_with('^')) {
    result.fromRoot = true;
    text.remove_prefix(1);
    ++column;
  }
  result.wildcard = text.find('*') != std::string_view::npos &&
                    text.find('{') == std::string_view::npos;
  std::string_view rest = text;
  while (!rest.empty()) {
    size_t open = rest.find('{');
    result.pieces.push_back({std::string(rest.substr(0, open)), nullptr});
    if (open == std::string_view::npos)
      break;
    size_t close = rest.find('}', open);
    result.pieces.back().hole = hole(
        rest.substr(open + 1, close - open - 1), result.where.line,
        column + static_cast<uint32_t>(rest.data() - text.data() + open) + 1);
    rest.remove_prefix(close + 1);
  }
  if (result.pieces.size() != 1 || result.pieces[0].hole)
    return result;
  for (size_t start = 0; start <= text.size();) {
    size_t dot = std::min(text.find('.', start), text.size());
    result.segments.emplace_back(text.substr(start, dot - start));
    start = dot + 1;
  }
  result.head = intern(result.segments[0]);
  return result;
}

ExprPtr ExpressionBuilder::make(Expr::Kind kind,
                                antlr4::ParserRuleContext *tree) const {
  auto result = std::make_unique<Expr>();
  result->kind = kind;
  result->where = range(tree);
  return result;
}

ExprPtr ExpressionBuilder::operand(MappingParser::OperandContext *tree) {
  if (tree->call())
    return callValue(tree->call());
  ExprPtr result = make(Expr::Kind::Name, tree->name());
  result->name = std::make_unique<Name>(name(tree->name()));
  result->name->optional = tree->optional != nullptr;
  return result;
}

ExprPtr ExpressionBuilder::literal(MappingParser::LiteralContext *tree) {
  std::string text = tree->getText();
  if (tree->STRING()) {
    ExprPtr result = make(Expr::Kind::String, tree);
    result->text = text.substr(1, text.size() - 2);
    return result;
  }
  if (tree->INT()) {
    ExprPtr result = make(Expr::Kind::Int, tree);
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(),
                                        result->integer);
    if (error != std::errc())
      diagnostics.error(result->where,
                        "integer " + text + " does not fit in 64 bits");
    return result;
  }
  if (tree->FLOAT()) {
    ExprPtr result = make(Expr::Kind::Float, tree);
    std::from_chars(text.data(), text.data() + text.size(), result->number);
    return result;
  }
  ExprPtr result =
      make(text == "null" ? Expr::Kind::Null : Expr::Kind::Bool, tree);
  result->integer = text == "true";
  return result;
}

ExprPtr ExpressionBuilder::callValue(MappingParser::CallContext *tree) {
  ExprPtr result = make(Expr::Kind::Call, tree);
  result->call = std::make_unique<Call>();
  Call &call = *result->call;
  auto *callee = tree->id(0);
  call.callee = callee->getText();
  call.symbol = plain(callee);
  call.where = range(callee);
  if (tree->variable) {
    call.variable = plain(tree->variable);
    call.variableWhere = range(tree->variable);
    call.from = expression(tree->from);
    call.to = expression(tree->to);
  }
  if (tree->arguments())
    call.arguments = arguments(tree->arguments());
  return result;
}

std::vector<Argument>
ExpressionBuilder::arguments(MappingParser::ArgumentsContext *tree) {
  std::vector<Argument> result;
  for (auto *entry : tree->argument()) {
    Argument &argument = result.emplace_back();
    if (entry->key) {
      plain(entry->key);
      argument.key = entry->key->getText();
    }
    argument.value = expression(entry->value);
    argument.optional = entry->optional != nullptr;
    if (argument.optional && argument.value->kind == Expr::Kind::Name)
      argument.value->name->optional = true;
    if (entry->extent)
      argument.extent = expression(entry->extent);
  }
  return result;
}

ExprPtr ExpressionBuilder::listValue(MappingParser::ListContext *tree) {
  ExprPtr result = make(Expr::Kind::List, tree);
  for (auto *item : tree->listItem()) {
    if (item->rest)
      result->operands.push_back(make(Expr::Kind::Rest, item));
    else
      result->operands.push_back(expression(item->expression()));
  }
  return result;
}

namespace {

Expr::Op binaryOp(const std::string &text) {
  using Op = Expr::Op;
  static const std::map<std::string, Op> ops{
      {"*", Op::Multiply},   {"/", Op::Divide},    {"%", Op::Remainder},
      {"+", Op::Add},        {"-", Op::Subtract},  {"<", Op::Less},
      {"<=", Op::LessEqual}, {">", Op::Greater},   {">=", Op::GreaterEqual},
      {"==", Op::Equal},     {"!=", Op::NotEqual}, {"in", Op::In},
      {"&&", Op::And},       {"||", Op::Or},       {"??", Op::Default}};
  return ops.at(text);
}

} // namespace

ExprPtr ExpressionBuilder::expression(MappingParser::ExpressionContext *tree) {
  if (auto *group = as<MappingParser::GroupContext>(tree))
    return expression(group->expression());
  if (auto *value = as<MappingParser::LiteralValueContext>(tree))
    return literal(value->literal());
  if (auto *value = as<MappingParser::CallValueContext>(tree))
    return callValue(value->call());
  if (auto *list = as<MappingParser::ListContext>(tree))
    return listValue(list);
  if (auto *value = as<MappingParser::NameValueContext>(tree)) {
    ExprPtr result = make(Expr::Kind::Name, value);
    result->name = std::make_unique<Name>(name(value->name()));
    return result;
  }
  if (auto *list = as<MappingParser::ComprehensionContext>(tree)) {
    ExprPtr result = make(Expr::Kind::Comprehension, list);
    result->variable = plain(list->id());
    result->variableWhere = range(list->id());
    for (auto *part : {list->from, list->to, list->element})
      result->operands.push_back(expression(part));
    return result;
  }
  if (auto *index = as<MappingParser::IndexContext>(tree)) {
    ExprPtr result = make(Expr::Kind::Index, index);
    result->operands.push_back(expression(index->base));
    result->operands.push_back(expression(index->index));
    return result;
  }
  if (auto *unary = as<MappingParser::UnaryContext>(tree)) {
    ExprPtr result = make(Expr::Kind::Unary, unary);
    result->op = unary->op->getText() == "-" ? Expr::Op::Negate : Expr::Op::Not;
    result->operands.push_back(expression(unary->expression()));
    return result;
  }
  if (auto *choice = as<MappingParser::TernaryContext>(tree)) {
    ExprPtr result = make(Expr::Kind::Ternary, choice);
    for (auto *part : {choice->condition, choice->yes, choice->no})
      result->operands.push_back(expression(part));
    return result;
  }
  auto *binary = as<MappingParser::BinaryContext>(tree);
  ExprPtr result = make(Expr::Kind::Binary, tree);
  result->op = binaryOp(binary->op->getText());
  result->operands.push_back(expression(binary->left));
  result->operands.push_back(expression(binary->right));
  return result;
}

AttributeWord
ExpressionBuilder::attributeWord(MappingParser::AttributeWordContext *tree) {
  AttributeWord result;
  result.where = range(tree);
  if (tree->INT()) {
    result.word = tree->INT()->getText();
    return result;
  }
  plain(tree->id());
  result.word = tree->id()->getText();
  result.hasArguments = result.word.size() != tree->getText().size();
  if (tree->arguments())
    result.arguments = arguments(tree->arguments());
  return result;
}

Attribute
ExpressionBuilder::buildAttribute(MappingParser::AttributeContext *tree) {
  Attribute result;
  result.where = range(tree->key);
  result.key = tree->key->getText();
  auto *value = tree->value;
  if (!value->condition) {
    result.value = attributeWord(value->attributeWord(0));
    return result;
  }
  result.condition = expression(value->condition);
  result.value = attributeWord(value->yes);
  result.otherwise = attributeWord(value->no);
  return result;
}

} // namespace mbc::dsl
