#include "dsl/AstBuilder.h"

#include "dsl/AstContext.h"

#include <charconv>
#include <unordered_set>

namespace mbc::dsl {
namespace {

std::string unquote(const std::string &text) {
  return text.size() < 2 ? text : text.substr(1, text.size() - 2);
}

class Builder : ExpressionBuilder {
public:
  Builder(Spec &spec, std::shared_ptr<const SourceFile> file,
          std::vector<UseRequest> &uses, Diagnostics &diagnostics)
      : ExpressionBuilder(spec, std::move(file), diagnostics), uses(uses) {}

  void build(MappingParser::SpecContext *tree) {
    if (tree->version->getText() != "1")
      diagnostics.error(
          range(tree->version),
          "this program reads version 1 of the language, the file "
          "says version " +
              tree->version->getText());
    for (auto *item : tree->item())
      addItem(item);
  }

private:
  void addItem(MappingParser::ItemContext *item) {
    if (auto *use = as<MappingParser::UseContext>(item))
      uses.push_back({unquote(use->file->getText()), range(use->file)});
    else if (auto *model = as<MappingParser::ModelBlockContext>(item))
      addModel(model);
    else if (auto *let = as<MappingParser::LetContext>(item))
      declare(spec.lets, let->id(), "let",
              Let{let->id()->getText(), range(let->id()),
                  expression(let->expression())});
    else if (auto *def = as<MappingParser::DefContext>(item))
      declare(spec.defs, def->id(), "def",
              Def{def->id()->getText(), range(def->id()),
                  parameters(def->parameters()), places(def->parameters()),
                  expression(def->expression())});
    else if (auto *block = as<MappingParser::BlockContext>(item))
      declare(spec.blocks, block->id(), "block",
              Block{block->id()->getText(), range(block->id()),
                    parameters(block->parameters()),
                    places(block->parameters()), body(block->body())});
    else if (auto *config = as<MappingParser::ConfigBlockContext>(item))
      addConfig(config);
    else if (auto *top = as<MappingParser::TopContext>(item))
      spec.statements.push_back(statement(top->statement()));
  }

  template <typename Map, typename Value>
  void declare(Map &map, MappingParser::IdContext *id, const char *kind,
               Value value) {
    Symbol symbol = plain(id);
    SourceRange where = value.where;
    auto [entry, added] = map.try_emplace(symbol, std::move(value));
    if (!added)
      diagnostics.error(
          where, fmt::format("{} '{}' is declared twice", kind, id->getText()),
          {{entry->second.where, "the other declaration"}});
  }

  std::vector<Symbol> parameters(MappingParser::ParametersContext *tree) {
    std::vector<Symbol> result;
    if (!tree)
      return result;
    std::unordered_set<Symbol> seen;
    for (auto *id : tree->id()) {
      result.push_back(plain(id));
      if (!seen.insert(result.back()).second)
        diagnostics.error(range(id), "parameter '" + id->getText() +
                                         "' is declared twice");
    }
    return result;
  }

  std::vector<SourceRange> places(MappingParser::ParametersContext *tree) {
    std::vector<SourceRange> result;
    if (tree)
      for (auto *id : tree->id())
        result.push_back(range(id));
    return result;
  }

  void addModel(MappingParser::ModelBlockContext *tree) {
    if (spec.model) {
      diagnostics.error(range(tree->id()), "a spec describes one model",
                        {{spec.model->where, "the other model"}});
      return;
    }
    ModelDeclaration &model = spec.model.emplace();
    model.name = tree->id()->getText();
    model.where = range(tree->id());
    for (auto *field : tree->modelField())
      addModelField(model, field);
    if (model.megatron.empty())
      diagnostics.error(model.where,
                        "the model does not name its Megatron class; "
                        "write megatron \"GPTModel\" or \"HybridModel\"");
    if (!model.layers)
      diagnostics.error(model.where,
                        "the model does not say how many layers it has; "
                        "write layers N");
    if (!model.vocab)
      diagnostics.error(model.where,
                        "the model does not say the size of its vocabulary; "
                        "write vocab hf.vocab_size multiple 128");
  }

  void addModelField(ModelDeclaration &model,
                     MappingParser::ModelFieldContext *field) {
    if (auto *hf = as<MappingParser::HfFieldContext>(field)) {
      for (auto *name : hf->STRING())
        model.architectures.push_back(unquote(name->getText()));
    } else if (auto *type = as<MappingParser::TypeFieldContext>(field)) {
      for (auto *name : type->STRING())
        model.types.push_back(unquote(name->getText()));
    } else if (auto *megatron =
                   as<MappingParser::MegatronFieldContext>(field)) {
      model.megatron = unquote(megatron->STRING()->getText());
    } else if (auto *layers = as<MappingParser::LayersFieldContext>(field)) {
      model.layers = expression(layers->count);
      model.stacked = layers->stacked != nullptr;
      if (layers->condition)
        model.stackedIf = expression(layers->condition);
    } else if (auto *experts = as<MappingParser::ExpertsFieldContext>(field)) {
      model.experts = expression(experts->expression());
    } else if (auto *vocab = as<MappingParser::VocabFieldContext>(field)) {
      model.vocab = expression(vocab->size);
      model.vocabMultiple = expression(vocab->multiple);
    } else if (auto *pattern = as<MappingParser::PatternFieldContext>(field)) {
      model.patternField = pattern->id()->getText();
      model.patternCutBefore = unquote(pattern->STRING()->getText());
    }
  }

  void addConfig(MappingParser::ConfigBlockContext *tree) {
    for (auto *field : tree->configField()) {
      if (auto *ignore = as<MappingParser::ConfigIgnoreContext>(field)) {
        for (auto *path : ignore->name())
          spec.ignoredFields.push_back(name(path));
      } else if (auto *write = as<MappingParser::ConfigWriteContext>(field)) {
        for (auto *path : write->name())
          spec.writtenFields.push_back(name(path));
      } else if (auto *assign = as<MappingParser::ConfigAssignContext>(field)) {
        plain(assign->id());
        spec.config.push_back({assign->id()->getText(), range(assign->id()),
                               expression(assign->expression())});
      }
    }
  }

  Body body(MappingParser::BodyContext *tree) {
    Body result;
    for (auto *entry : tree->statement())
      result.push_back(statement(entry));
    return result;
  }

  Statement statement(MappingParser::StatementContext *tree) {
    Statement result{range(tree->getStart(), tree->getStart()), Call{}};
    if (auto *rule = as<MappingParser::RuleStatementContext>(tree))
      result.node = buildRule(rule);
    else if (auto *scope = as<MappingParser::ScopeContext>(tree))
      result.node = Scope{scopeName(scope->left), scopeName(scope->right),
                          body(scope->body())};
    else if (auto *loop = as<MappingParser::ForContext>(tree))
      result.node =
          For{plain(loop->id()), range(loop->id()), expression(loop->from),
              expression(loop->to), body(loop->body())};
    else if (auto *choice = as<MappingParser::IfContext>(tree))
      result.node = buildIf(choice);
    else if (auto *match = as<MappingParser::MatchContext>(tree))
      result.node = buildMatch(match);
    else if (auto *either = as<MappingParser::EitherContext>(tree))
      result.node = buildEither(either);
    else if (auto *tied = as<MappingParser::TiedContext>(tree))
      result.node = buildTied(tied);
    else if (auto *ignore = as<MappingParser::IgnoreContext>(tree))
      result.node = buildIgnore(ignore);
    else if (auto *extra = as<MappingParser::ExtraStateContext>(tree))
      result.node = buildExtraState(extra);
    else if (auto *call = as<MappingParser::BlockCallContext>(tree))
      result.node = buildBlockCall(call);
    return result;
  }

  Rule buildRule(MappingParser::RuleStatementContext *tree) {
    Rule rule{operand(tree->left), operand(tree->right), {}};
    for (auto *attribute : tree->attribute())
      rule.attributes.push_back(buildAttribute(attribute));
    return rule;
  }

  Name scopeName(MappingParser::ScopeNameContext *tree) {
    if (!tree->stay)
      return name(tree->name());
    Name result;
    result.where = range(tree->stay);
    result.spelling = ".";
    result.stay = true;
    return result;
  }

  If buildIf(MappingParser::IfContext *tree) {
    If result;
    for (auto *branch : tree->branch())
      result.branches.push_back(
          {expression(branch->expression()), body(branch->body())});
    if (tree->otherwise)
      result.branches.push_back({nullptr, body(tree->otherwise)});
    return result;
  }

  Match buildMatch(MappingParser::MatchContext *tree) {
    Match match{expression(tree->expression()), {}};
    for (auto *entry : tree->matchCase()) {
      MatchCase matchCase{unquote(entry->STRING()->getText()),
                          range(entry->STRING()->getSymbol()),
                          {}};
      if (entry->body())
        matchCase.body = body(entry->body());
      else
        matchCase.body.push_back(statement(entry->statement()));
      for (const MatchCase &other : match.cases)
        if (other.word == matchCase.word)
          diagnostics.error(matchCase.where,
                            "word \"" + other.word + "\" is listed twice",
                            {{other.where, "the other one"}});
      match.cases.push_back(std::move(matchCase));
    }
    return match;
  }

  Either buildEither(MappingParser::EitherContext *tree) {
    Either either;
    for (auto *form : tree->form())
      either.forms.push_back(
          {form->id()->getText(), range(form->id()), body(form->body())});
    return either;
  }

  TiedStatement buildTied(MappingParser::TiedContext *tree) {
    TiedStatement tied{tree->side->getText() == "megatron",
                       name(tree->copy),
                       name(tree->owner),
                       {}};
    tied.copy.optional = tree->optional != nullptr;
    for (auto *attribute : tree->attribute())
      tied.attributes.push_back(buildAttribute(attribute));
    return tied;
  }

  IgnoreStatement buildIgnore(MappingParser::IgnoreContext *tree) {
    IgnoreStatement ignore;
    for (auto *pattern : tree->pattern()) {
      ignore.patterns.push_back(name(pattern->name()));
      ignore.patterns.back().optional = pattern->optional != nullptr;
    }
    return ignore;
  }

  ExtraStateStatement buildExtraState(MappingParser::ExtraStateContext *tree) {
    ExtraStateStatement extra;
    for (auto *module : tree->name())
      extra.modules.push_back(name(module));
    if (tree->expression())
      extra.experts = expression(tree->expression());
    return extra;
  }

  Call buildBlockCall(MappingParser::BlockCallContext *tree) {
    Call call;
    call.callee = tree->id()->getText();
    call.symbol = plain(tree->id());
    call.where = range(tree->id());
    if (tree->arguments())
      call.arguments = arguments(tree->arguments());
    return call;
  }

  std::vector<UseRequest> &uses;
};

} // namespace

void addFile(Spec &spec, std::shared_ptr<const SourceFile> file,
             std::vector<UseRequest> &uses, Diagnostics &diagnostics) {
  SyntaxTree tree(file, diagnostics);
  if (tree.valid())
    Builder(spec, std::move(file), uses, diagnostics).build(tree.root());
}

} // namespace mbc::dsl
